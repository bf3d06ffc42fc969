-- A new request. Its stream comes first: a key of another type is refused there.
-- USES: request_records counters
-- KEYS: open
local function begun(rid, state, priority, limit)
  redis.call('XGROUP', 'CREATE', s_ .. rid, 'g', '0', 'MKSTREAM')
  local gen = reserve('gen', 1) + 1
  redis.call('HSET', r_ .. rid, 'state', state, 'priority', priority, 'limit', limit,
    'created', now_text, 'gen', gen, 'born', gen)
  redis.call('ZADD', open, now_text, rid)
  requests[rid] = nil
  return request(rid)
end
