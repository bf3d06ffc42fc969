-- What happened, in one stream entry per call, and the minute counters behind rates.
-- KEYS: hist rate_
-- USES: config
local events, tallies, by = {}, {}, nil
local loud = {failed = true, lost = true, dead = true, op = true}

local every = conf.history == 'all' -- ask before building an item of a quiet event: it costs

local function note(event, item)
  if conf.history == 'off' or not (loud[event] or every) then return end
  local list = events[event]
  if not list then list = {}; events[event] = list end
  list[#list + 1] = item
end

local function tally(name, n)
  tallies[name] = (tallies[name] or 0) + n
end

local function write_history()
  local fields = {}
  for event, items in pairs(events) do
    fields[#fields + 1] = event
    fields[#fields + 1] = table.concat(items, ' ')
  end
  if #fields > 0 then
    -- Were another's key there, or an entry with the last id there is, the history alone would suffer.
    redis.pcall('XADD', hist, 'MAXLEN', '~', conf.history_max, '*', 't', now, 'by', by or '-',
      unpack(fields))
  end
  events = {}
  local minute = math.floor(now / 60000)
  for name, n in pairs(tallies) do
    if n ~= 0 then
      local key = rate_ .. math.floor(minute / 60)
      if redis.pcall('HINCRBY', key, (minute % 60) .. name, n) == n then
        redis.call('EXPIRE', key, 90000)
      end
    end
  end
  tallies = {}
end
