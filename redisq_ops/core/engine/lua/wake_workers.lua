-- `wake_workers(n)`: push one word per worker worth waking. The list is capped: its elements are hints,
-- and a lost one costs a worker time, never an entry.
-- KEYS: wake
local function wake_workers(n)
  local there = redis.pcall('LLEN', wake)
  if type(there) ~= 'number' then return end -- another program's key: workers poll in the end
  n = math.min(n, 16 - there)
  if n > 0 then
    local words = {}
    for i = 1, n do words[i] = '1' end
    redis.call('LPUSH', wake, unpack(words))
  end
end
