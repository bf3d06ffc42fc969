-- Every change of an entry's state, written once. `move` notes it, `flush` writes all that was
-- noted in as few commands as there are kinds of change; flush before looking at the keys again.
-- A state other than waiting is a sorted set id -> ms (pending: deadline, delayed: ready time,
-- dead and trash: since). What waiting means, and what else a change drags along, is the room's:
-- it gives `waiting_zset`, `room_move`, `room_flush`.
-- KEYS: lease delay dead trash err
-- USES: record history counters room
local zset_of = {pending = lease, delayed = delay, dead = dead, trash = trash,
  waiting = waiting_zset}
local drops, adds, kept, forgotten, failed = {}, {}, {}, {}, {}

local function listed(map, key, ...)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  for i = 1, select('#', ...) do list[#list + 1] = select(i, ...) end
end

local function keep(id, r)
  kept[#kept + 1] = id
  kept[#kept + 1] = packed(r)
end

-- Take's own way in: what else waiting -> pending needs, the room has already done.
local function hold(id, r, deadline)
  listed(adds, lease, deadline, id)
  keep(id, r)
end

local function move(id, from, to, score, r, value)
  if zset_of[from] then listed(drops, zset_of[from], id) end
  if zset_of[to] then listed(adds, zset_of[to], score, id) end
  if to == 'done' or to == 'gone' then
    forgotten[#forgotten + 1] = id
    if r.failures > 0 or to == 'gone' then failed[#failed + 1] = id end
    count(to, 1)
  else
    if to ~= 'pending' then r.receipt = '-' end
    r.since = now
    keep(id, r)
  end
  room_move(id, from, to, r, value)
end

local function flush()
  for key, ids in pairs(drops) do redis.call('ZREM', key, unpack(ids)) end
  for key, pairs_of in pairs(adds) do redis.call('ZADD', key, unpack(pairs_of)) end
  if #kept > 0 then redis.call('HSET', meta, unpack(kept)) end
  if #forgotten > 0 then redis.call('HDEL', meta, unpack(forgotten)) end
  if #failed > 0 then redis.call('HDEL', err, unpack(failed)) end
  room_flush()
  drops, adds, kept, forgotten, failed = {}, {}, {}, {}, {}
  write_counters()
  write_history()
end
