-- Every change of an entry's state, written once. `move` notes it, `flush` writes all that was
-- noted in as few commands as there are kinds of change; flush before looking at the keys again.
-- A state other than waiting is a sorted set id -> ms (pending: deadline, delayed: ready time,
-- dead and trash: since). What waiting means, and what else a change drags along, is the room's:
-- it gives `waiting_zset`, `room_move`, `room_flush`. What `room_move` returns is for those who move
-- what they find: false: it can't be moved; 'full': that one was moved, and is enough for one call.
-- KEYS: lease delay dead trash err
-- USES: record history counters room
local zset_of = {pending = lease, delayed = delay, dead = dead, trash = trash,
  waiting = waiting_zset}
local drops, adds, kept, forgotten = {}, {}, {}, {}

local function listed(map, key)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  return list
end

local function keep(id, line)
  local n = #kept
  kept[n + 1], kept[n + 2] = id, line
end

local function retain(id, r)
  if r.first == 0 and r.op == '-' then -- as if it never was anything but waiting: no record
    forgotten[#forgotten + 1] = id
  else
    keep(id, packed(r))
  end
end

-- Take's own way in: what else waiting -> pending needs, the room has already done.
local function hold(id, line, deadline)
  local list = listed(adds, lease)
  local n = #list
  list[n + 1], list[n + 2] = deadline, id
  keep(id, line)
end

-- For good: done, or gone from the trash. A done one's `value` and `wait` are the room's affair.
local function leave(id, from, to, value, wait)
  if zset_of[from] then
    local list = listed(drops, zset_of[from])
    list[#list + 1] = id
  end
  forgotten[#forgotten + 1] = id
  count(to, 1)
  room_move(id, from, to, nil, value, wait)
end

local function move(id, from, to, score, r)
  if to == 'gone' then return leave(id, from, to) end
  if zset_of[from] then
    local list = listed(drops, zset_of[from])
    list[#list + 1] = id
  end
  if zset_of[to] then
    local list = listed(adds, zset_of[to])
    local n = #list
    list[n + 1], list[n + 2] = score, id
  end
  if to ~= 'pending' then r.receipt = '-' end
  r.since = now
  retain(id, r)
  room_move(id, from, to, r)
end

local function flush()
  for key, ids in pairs(drops) do redis.call('ZREM', key, unpack(ids)) end
  for key, pairs_of in pairs(adds) do redis.call('ZADD', key, unpack(pairs_of)) end
  if #kept > 0 then redis.call('HSET', meta, unpack(kept)) end
  if #forgotten > 0 then -- a replayed entry counts no failures any more and still has its error
    redis.call('HDEL', meta, unpack(forgotten))
    redis.call('HDEL', err, unpack(forgotten))
  end
  room_flush()
  drops, adds, kept, forgotten = {}, {}, {}, {}
  write_counters()
  write_history()
end
