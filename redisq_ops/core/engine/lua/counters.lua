-- Counters of the queue in `stat`, written once per flush. `counters_known` has their values when the
-- script began, false where absent: the loader lists those that the script names (COUNTERS), and they
-- are checked here, so that no later write can fail. A counter that the script's header has under
-- RARELY is read when it is first counted, which has to be before the first write.
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

-- Give out `n` numbers. Returns the last number given out before them.
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

-- The cursor of a scan that is stored in `stat`; '0' if absent or corrupt.
local function counters_cursor(name)
  local at = redis.call('HGET', stat, name)
  return at and #at < 20 and at:find('^%d+$') and at or '0'
end
