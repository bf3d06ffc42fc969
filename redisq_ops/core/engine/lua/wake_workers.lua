-- One word per worker worth waking. The list is capped: it is a hint, and a lost one costs an idle
-- worker's next look, never work.
-- KEYS: wake
local function wake_workers(n)
  local there = redis.pcall('LLEN', wake)
  if type(there) ~= 'number' then return end -- another's key: whoever is idle looks in the end
  n = math.min(n, 16 - there)
  if n > 0 then
    local words = {}
    for i = 1, n do words[i] = '1' end
    redis.call('LPUSH', wake, unpack(words))
  end
end
