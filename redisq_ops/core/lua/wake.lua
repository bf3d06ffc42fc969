-- One word per worker worth waking. The list is capped: it is a hint, and a lost one costs an idle
-- worker's next look, never work.
-- KEYS: wake
local function wake_workers(n)
  n = math.min(n, 16 - redis.call('LLEN', wake))
  if n > 0 then
    local words = {}
    for i = 1, n do words[i] = '1' end
    redis.call('LPUSH', wake, unpack(words))
  end
end
