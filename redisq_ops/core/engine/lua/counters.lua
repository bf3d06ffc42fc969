-- The queue's running counters, written once per flush. `counted` is what they were when the script
-- began, false where there was none: the loader has read and checked those that the script names, so
-- that no later write can fail. One that it leaves out (`SELDOM`) is read when it is counted first,
-- which has to be before the first write.
-- KEYS: stat
-- USES: corrupt_values
local stats = {}

local function count(name, n)
  if counted[name] == nil then counted[name] = sound(stat, {name})[name] end
  stats[name] = (stats[name] or 0) + n
end

-- The last number given out so far; `n` more are given out by this.
local function reserve(name, n)
  count(name, n)
  return (counted[name] or 0) + stats[name] - n
end

local function write_counters()
  local news, k = {}, 0
  for name, n in pairs(stats) do
    if n ~= 0 then
      counted[name] = (counted[name] or 0) + n
      news[k + 1], news[k + 2], k = name, counted[name], k + 2
    end
  end
  if k > 0 then redis.call('HSET', stat, unpack(news)) end
  stats = {}
end

-- Where a walk through a hash goes on; one that somebody spoilt begins anew.
local function cursor_of(name)
  local at = redis.call('HGET', stat, name)
  return at and #at < 20 and at:find('^%d+$') and at or '0'
end
