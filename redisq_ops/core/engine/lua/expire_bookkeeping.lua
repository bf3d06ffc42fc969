-- What nobody will ask for again goes, a little per call: the word of callers not heard of for a day,
-- what is kept of operations for a month.
-- KEYS: callers ops op_
-- USES: counters unfinished_operations
local function forget_unheard()
  local page = redis.call('HSCAN', callers, cursor_of('sweep'), 'COUNT', 50)
  redis.call('HSET', stat, 'sweep', page[1])
  for i = 1, #page[2], 2 do
    local at = tonumber(page[2][i + 1]:match('^%d+ (%d+)'))
    if at and at < now - 86400000 then redis.call('HDEL', callers, page[2][i]) end
  end
  local old = redis.call('ZRANGE', ops, '-inf', now - 2592000000, 'BYSCORE', 'LIMIT', 0, 20)
  for _, op in ipairs(old) do
    redis.call('ZREM', ops, op)
    if not is_unfinished(op) then redis.call('DEL', op_ .. op) end
  end
end
