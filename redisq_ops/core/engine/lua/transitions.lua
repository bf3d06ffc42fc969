-- Every change of an entry's state. `transitions_move`, `_leave` and `_finish` note a change;
-- `transitions_flush` writes all of them in as few commands as there are kinds of change. Flush before
-- reading the keys again. A script that writes anything else of a change before the flush calls
-- `transitions_check` first.
-- A state other than waiting is a sorted set (state_zsets.lua). What waiting is, and what else a change
-- writes, is the kind's part (storage.lua).
-- KEYS: err lease meta stat
-- USES: type_check write_buffer history counters list_of state_zsets storage_check storage_done
-- USES: storage_flush storage_moved storage_prepare
local changed = false -- whether an entry goes to another state, and could be lost half way
local concluded = {} -- ids that were acknowledged

-- Whether an entry became dead, or went to the trash, as of an earlier time: by an undo, or from another
-- shard.
local transitions_backdated = false

-- Acknowledged deliveries, the most common change: all of a call at once.
local function transitions_finish(ids)
  concluded = ids
  counters_add('done', #ids)
  storage_done(ids)
end

-- An entry leaves for good: `to` is done or gone. `value`, `wait`: passed on to `storage_moved`.
local function transitions_leave(id, from, to, value, wait)
  if state_zsets[from] then
    local list = list_of(write_buffer_drops, state_zsets[from])
    list[#list + 1] = id
  end
  write_buffer_forgotten[#write_buffer_forgotten + 1] = id
  counters_add(to == 'gone' and 'gone' or 'done', 1)
  storage_moved(id, from, to, nil, value, wait)
end

-- `r`: the entry's record, changed as needed. `since`: when it entered the state, if that isn't now.
-- `value`: as of `transitions_leave`, of an entry that runs again.
local function transitions_move(id, from, to, score, r, since, value)
  if to == 'gone' then return transitions_leave(id, from, to) end
  if state_zsets[from] then
    local list = list_of(write_buffer_drops, state_zsets[from])
    list[#list + 1] = id
  end
  if state_zsets[to] then write_buffer_add(state_zsets[to], score, id) end
  if (to == 'dead' or to == 'trash') and tonumber(score) < now then transitions_backdated = true end
  -- mutant receipts outlive the delivery: to ~= 'pending' => false
  if to ~= 'pending' then r.receipt = '-' end
  r.since, changed = since or now, true
  write_buffer_retain(id, r)
  storage_moved(id, from, to, r, value)
end

-- Before the first write: every check that may refuse the changes noted so far.
local function transitions_check()
  if changed then
    type_check_all()
  elseif #write_buffer_forgotten > 0 then
    type_check_key(err, 'hash')
  end
  storage_check(write_buffer_add)
  storage_prepare()
end

local function transitions_flush()
  transitions_check()
  local errs = #concluded > 0 and redis.call('HLEN', err) or 0
  if #concluded > 0 then
    redis.call('ZREM', lease, unpack(concluded))
    redis.call('HDEL', meta, unpack(concluded))
    -- mutant errors of what was done kept: redis.call('HDEL', err, unpack(concluded)) =>
    if errs > 0 then redis.call('HDEL', err, unpack(concluded)) end
  end
  for key, ids in pairs(write_buffer_drops) do redis.call('ZREM', key, unpack(ids)) end
  for key, pairs_of in pairs(write_buffer_adds) do redis.call('ZADD', key, unpack(pairs_of)) end
  if #write_buffer_records > 0 then redis.call('HSET', meta, unpack(write_buffer_records)) end
  if #write_buffer_forgotten > 0 then -- a replayed entry still has its error
    redis.call('HDEL', meta, unpack(write_buffer_forgotten))
    -- mutant errors kept for ever
    redis.call('HDEL', err, unpack(write_buffer_forgotten))
  end
  -- mutant nobody learns that an undo put anything back
  if transitions_backdated then redis.call('HSET', stat, 'put_back', now) end -- `move_range` asks
  storage_flush()
  write_buffer_drops, write_buffer_adds, concluded = {}, {}, {}
  write_buffer_records, write_buffer_forgotten = {}, {}
  changed, transitions_backdated = false, false
  counters_write()
  history_write()
end
