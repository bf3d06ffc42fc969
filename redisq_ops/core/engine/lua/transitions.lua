-- Every change of an entry's state, written once. `move` notes it, `flush` writes all that was
-- noted in as few commands as there are kinds of change; flush before looking at the keys again.
-- A state other than waiting is a sorted set id -> ms (pending: deadline, delayed: ready time,
-- dead and trash: since). What waiting means, and what else a change drags along, is the room's: it
-- gives `waiting_zset`, `room_move`, `room_done`, `room_flush`. What `room_move` returns is for those
-- who move what they find: false: it can't be moved; 'full': that one was, and is enough for one call.
-- Who writes anything of a change before the flush calls `ready` first.
-- KEYS: err
-- USES: type_check write_buffer history counters storage type_check_hook
local changed = false -- whether an entry is on its way to another state, and might be lost half way
local concluded = {} -- what was acknowledged
local backdated = false -- whether an entry became dead, or went to the trash, as of an earlier time: by
-- an undo, or from another shard, where that may have been before

-- Deliveries that were acknowledged, most of what happens: all of a call at once.
local function finish(ids)
  concluded = ids
  count('done', #ids)
  room_done(ids)
end

-- For good: done, or gone from the trash. A done one's `value` and `wait` are the room's affair.
local function leave(id, from, to, value, wait)
  if zset_of[from] then
    local list = listed(drops, zset_of[from])
    list[#list + 1] = id
  end
  forgotten[#forgotten + 1] = id
  count(to == 'gone' and 'gone' or 'done', 1)
  room_move(id, from, to, nil, value, wait)
end

-- `since`: when it entered that state, if that isn't now.
local function move(id, from, to, score, r, since)
  if to == 'gone' then return leave(id, from, to) end
  if zset_of[from] then
    local list = listed(drops, zset_of[from])
    list[#list + 1] = id
  end
  if zset_of[to] then admit(zset_of[to], score, id) end
  if (to == 'dead' or to == 'trash') and tonumber(score) < now then backdated = true end
  if to ~= 'pending' then r.receipt = '-' end
  r.since, changed = since or now, true
  retain(id, r)
  room_move(id, from, to, r)
end

-- Before the first write of what was noted: all that may refuse it. `room_read` is the kind's: what its
-- part of a flush reads or writes in keys of its own.
local function ready()
  if changed then fit() elseif #forgotten > 0 then must_be(err, 'hash') end
  room_ready(admit)
  room_read()
end

local function flush()
  ready()
  local errs = #concluded > 0 and redis.call('HLEN', err) or 0
  if #concluded > 0 then
    redis.call('ZREM', lease, unpack(concluded))
    redis.call('HDEL', meta, unpack(concluded))
    if errs > 0 then redis.call('HDEL', err, unpack(concluded)) end
  end
  for key, ids in pairs(drops) do redis.call('ZREM', key, unpack(ids)) end
  for key, pairs_of in pairs(adds) do redis.call('ZADD', key, unpack(pairs_of)) end
  if #kept > 0 then redis.call('HSET', meta, unpack(kept)) end
  if #forgotten > 0 then -- a replayed entry counts no failures any more and still has its error
    redis.call('HDEL', meta, unpack(forgotten))
    redis.call('HDEL', err, unpack(forgotten))
  end
  if backdated then redis.call('HSET', stat, 'put_back', now) end -- `front` asks
  room_flush()
  drops, adds, kept, forgotten, concluded, changed, backdated = {}, {}, {}, {}, {}, false, false
  write_counters()
  write_history()
end
