-- What a flush is to write: what goes out of a state's sorted set and what comes in, records that
-- change and those that go. `retain` keeps one, unless it says that its entry only ever waited.
-- KEYS: lease delay dead trash
-- USES: record storage list_of
local zset_of = {pending = lease, delayed = delay, dead = dead, trash = trash,
  waiting = waiting_zset}
local drops, adds, kept, forgotten = {}, {}, {}, {}

local function admit(zset, score, id)
  local list = listed(adds, zset)
  local n = #list
  list[n + 1], list[n + 2] = score, id
end

local function keep(id, line)
  local n = #kept
  kept[n + 1], kept[n + 2] = id, line
end

local function retain(id, r)
  if r.first == 0 and r.op == '-' then
    forgotten[#forgotten + 1] = id
  else
    keep(id, packed(r))
  end
end
