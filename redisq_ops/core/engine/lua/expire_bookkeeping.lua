-- Remove old bookkeeping, a little per call: the stored replies of callers that were silent for a day,
-- and entries of the audit log after a month.
-- KEYS: callers ops op_ stat
-- USES: counters unfinished_operations
local function expire_bookkeeping()
  -- The more callers, the more at a time: else short-lived ones came faster than they went.
  local n = math.min(1000, math.max(50, math.floor(redis.call('HLEN', callers) / 50)))
  local page = redis.call('HSCAN', callers, counters_cursor('sweep'), 'COUNT', n)
  redis.call('HSET', stat, 'sweep', page[1])
  local silent = {}
  for i = 1, #page[2], 2 do
    local at = tonumber(page[2][i + 1]:match('^%d+ (%d+)'))
    if at and at < now - 86400000 then silent[#silent + 1] = page[2][i] end
  end
  if #silent > 0 then redis.call('HDEL', callers, unpack(silent)) end
  local old = redis.call('ZRANGE', ops, '-inf', now - 2592000000, 'BYSCORE', 'LIMIT', 0, 20)
  for _, op in ipairs(old) do
    redis.call('ZREM', ops, op)
    if not unfinished_operations_has(op) then redis.call('DEL', op_ .. op) end
  end
end
