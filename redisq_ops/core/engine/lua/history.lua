-- The queue's history: one stream entry per call, and counters per minute, from which rates are
-- computed. `history_by`: who caused the call's events; the script sets it. `history_all`: whether the
-- queue records quiet events too; ask it before building the item of one.
-- KEYS: hist rate_
-- USES: config
local events, tallies, history_by = {}, {}, nil
local always = {failed = true, lost = true, dead = true, op = true}

local history_all = config.history == 'all'

local function history_note(event, item)
  if config.history == 'off' or not (always[event] or history_all) then return end
  local list = events[event]
  if not list then list = {}; events[event] = list end
  list[#list + 1] = item
end

local function history_tally(name, n)
  tallies[name] = (tallies[name] or 0) + n
end

local function history_write()
  local fields = {}
  for event, items in pairs(events) do
    fields[#fields + 1] = event
    fields[#fields + 1] = table.concat(items, ' ')
  end
  if #fields > 0 then
    -- If the key has another type, or holds the highest possible id, only the history suffers.
    redis.pcall('XADD', hist, 'MAXLEN', '~', config.history_max, '*', 't', now, 'by', history_by or '-',
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
