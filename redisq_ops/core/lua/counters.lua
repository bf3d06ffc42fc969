-- The queue's running counters, written once per flush.
-- KEYS: stat
local stats = {}

local function count(name, n)
  stats[name] = (stats[name] or 0) + n
end

local function write_counters()
  for name, n in pairs(stats) do
    if n ~= 0 then redis.call('HINCRBY', stat, name, n) end
  end
  stats = {}
end
