-- The queue's running counters, written once per flush. `counted` is what they were when the script
-- began, false where there was none: the loader has read and checked those that the script names, so
-- that no later write can fail. One that it leaves out (`SELDOM`) is read when it is counted first,
-- which has to be before the first write.
-- KEYS: stat
-- USES: corrupt_values
local counters_known = #COUNTERS == 0 and {} or corrupt_values_integers(stat, COUNTERS)
local counters_changes = {}

local function counters_add(name, n)
  if counters_known[name] == nil then
    counters_known[name] = corrupt_values_integers(stat, {name})[name]
  end
  counters_changes[name] = (counters_changes[name] or 0) + n
end

-- The last number given out so far; `n` more are given out by this.
local function counters_reserve(name, n)
  counters_add(name, n)
  return (counters_known[name] or 0) + counters_changes[name] - n
end

local function counters_write()
  local news, k = {}, 0
  for name, n in pairs(counters_changes) do
    if n ~= 0 then
      counters_known[name] = (counters_known[name] or 0) + n
      news[k + 1], news[k + 2], k = name, counters_known[name], k + 2
    end
  end
  if k > 0 then redis.call('HSET', stat, unpack(news)) end
  counters_changes = {}
end

-- Where a walk through a hash goes on; one that somebody spoilt begins anew.
local function counters_cursor(name)
  local at = redis.call('HGET', stat, name)
  return at and #at < 20 and at:find('^%d+$') and at or '0'
end
