-- Create a request. Its stream comes first: a key of another type is refused there.
-- KEYS: open s_ r_
-- USES: request counters
local function begin_request(rid, state, priority, limit)
  redis.call('XGROUP', 'CREATE', s_ .. rid, 'g', '0', 'MKSTREAM')
  -- mutant tokens of a namesake that is gone: counters_reserve('gen', 1) + =>
  local gen = counters_reserve('gen', 1) + 1
  redis.call('HSET', r_ .. rid, 'state', state, 'priority', priority, 'limit', limit,
    'created', now_text, 'gen', gen, 'born', gen)
  redis.call('ZADD', open, now_text, rid)
  local q = request_with(rid, {state = state, priority = tonumber(priority), limit = tonumber(limit),
    created = now, gen = gen, born = gen})
  request_cache[rid] = q
  return q
end
