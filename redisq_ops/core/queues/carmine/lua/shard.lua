-- The ids of all messages of a shard, and what is cleared when it is given up.
-- First the messages in Carmine's sight, then (cursors that begin with b) those out of it. A message
-- that went back into sight meanwhile may be missed: the counter `shown` says how many did.
-- KEYS: body messages circle stray eoq dry_runs
-- IMPLEMENTS: storage_scan storage_clear
local function storage_scan(cursor, max)
  local hidden = cursor:match('^b(%d+)$')
  local page = redis.call('HSCAN', hidden and body or messages, hidden or cursor, 'COUNT', max)
  local after = page[1]
  if not hidden and after == '0' then
    after = 'b0'
  elseif hidden and after ~= '0' then
    after = 'b' .. after
  end
  return after, page[2]
end

-- Carmine's own keys go too, unless another program has put messages there.
local function storage_clear()
  if redis.call('EXISTS', messages) == 0 then
    redis.call('UNLINK', circle, stray, eoq, dry_runs)
  end
end
