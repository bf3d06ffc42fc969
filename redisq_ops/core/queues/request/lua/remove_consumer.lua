-- Remove a consumer from a request's group, unless it holds entries there: XGROUP DELCONSUMER alone
-- loses what a consumer holds.
-- KEYS: s_
-- ARGV: rid consumer
-- FLAGS: allow-oom
-- Returns one word: gone | holds | absent.
local group = s_ .. rid
if redis.call('EXISTS', group) == 0 then return 'absent' end
if #redis.call('XPENDING', group, 'g', '-', '+', 1, consumer) > 0 then return 'holds' end
for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', group, 'g')) do
  if row[2] == consumer then
    redis.call('XGROUP', 'DELCONSUMER', group, 'g', consumer)
    return 'gone'
  end
end
return 'absent'
