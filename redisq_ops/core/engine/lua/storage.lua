-- The storage interface: every hook that the engine's scripts call and a kind of queue may implement.
-- A kind implements hooks in files of its own lua folder; the header of each such file lists them
-- (IMPLEMENTS: storage_moved storage_score). A script or a module that calls a hook names it in USES;
-- the loader adds the kind's file, or else the default below. A hook without a default is required.
-- Entries are named by `id`; `r` is a record (record.lua); states are waiting, pending, delayed, dead,
-- trash, done and gone (deleted for good).
-- INTERFACE: storage

-- storage_waiting_zset: the sorted set of waiting entries (id -> ms) of a kind that has one; else nil.
local storage_waiting_zset = nil

-- storage_moved(id, from, to, r, value, wait): `transitions_move` calls it for each change of state,
-- before anything is written; the kind keeps in mind what `storage_flush` has to write for it. `r` is
-- nil when `to` is done or gone. `value`, `wait` (ms): what the acknowledgement brought along.
-- Returns false if the entry can't be moved; 'full' if it was, and the call should move no more; or nil.

-- storage_done(ids): as `storage_moved` from pending to done, for all entries that one call
-- acknowledged without a result.

-- storage_again(id, wait): an entry was acknowledged. Returns when it is to run again (ms), or nil.
-- Default: it never does.
local function storage_again() return nil end

-- storage_fast_path(): before the modules of `settle_and_take` are set up, which takes longer than a
-- short step. Does the whole call with the same result, or returns nil and leaves the call to them.
-- Default: the modules do it.
local function storage_fast_path() end

-- storage_score(id, state): the score of an entry in a state (its ms there), or nil if it isn't in it.

-- storage_still_in(ids, state): which of some entries are in a state, when their records already name
-- the operation that brought them there. Returns a list with a true value for each that is; nil if that
-- record alone says that all of them are.
-- Default: one ZMSCORE where the state has a sorted set, else `storage_score` for each.
-- USES: state_zsets storage_score
local function storage_still_in(ids, state)
  if #ids == 0 then return {} end
  local zset = state_zsets[state]
  if zset then return redis.call('ZMSCORE', zset, unpack(ids)) end
  local found = {}
  for k, id in ipairs(ids) do found[k] = storage_score(id, state) or false end
  return found
end

-- storage_check(add): called before the first write of a call, as often as there are new changes.
-- Fails the call if a key that no header can name, and that the changes noted so far will write, has
-- another type. `add(zset, score, id)` puts an entry into a state's sorted set with the same flush.
-- Default: there are no such keys.
local function storage_check() end

-- storage_prepare(): called before the first write of a flush. Reads what `storage_flush` needs, and
-- fails the call if something it read is corrupt or of another type.
-- Default: nothing to read.
local function storage_prepare() end

-- storage_flush(): write what the changes noted since the last flush mean for the kind's own keys.

-- storage_retire(max, moves): sweep. Remove what has expired in the kind's own keys, about `max`
-- things. `moves`: whether a move between two queues is unfinished. Returns how many things were
-- removed.

-- storage_move_range(ids, from, to, all): `storage_moved` for ids that all go the same way; `false` in
-- their place is an id to leave out. Unless `all` it stops early where that is enough for one call.
-- Returns the ids that were moved, how many could not be, and whether that is enough for one call.
-- Default: one after the other.
-- USES: record storage_moved
local function storage_move_range(ids, from, to, all)
  local moved, stuck, stays, full = {}, 0, record_unpack(nil), false
  for k = 1, #ids do
    local id = ids[k]
    local result = id and storage_moved(id, from, to, stays)
    if result == false then
      stuck = stuck + 1
    else
      moved[#moved + 1] = id
      full = result == 'full'
      if full and not all then break end
    end
  end
  return moved, stuck, full
end

-- storage_check_range(): before a step of `move_range` writes: fails the call if a key that the step
-- writes and hasn't read has another type.
-- Default: checks every key of the script.
-- USES: type_check
local function storage_check_range()
  type_check_all()
end

-- storage_payload(id): the payload of an entry, or a false value.
-- KEYS: body
local function storage_payload(id)
  return redis.call('HGET', body, id)
end

-- storage_set_payload(id, payload): give an entry another payload.
-- KEYS: body
local function storage_set_payload(id, payload)
  redis.call('HSET', body, id, payload)
end

-- storage_stored_payload(id): the payload of an entry in the trash as the kind stores it, with
-- whatever else is stored along with it; `storage_place` of the same kind takes it.
-- KEYS: body
local function storage_stored_payload(id)
  return redis.call('HGET', body, id)
end

-- storage_next_runs: a hash, id -> the run after the present delivery; nil if there are none.
local storage_next_runs = nil

-- storage_following(ids): for each entry one word of data that moves with it to another queue or
-- shard; false or nil if it has none.
-- Default: what `storage_next_runs` has, where it is stored again.
-- USES: storage_next_runs
local function storage_following(ids)
  return storage_next_runs and redis.call('HMGET', storage_next_runs, unpack(ids)) or {}
end

-- storage_here(id): whether the queue has an entry of that id.
-- KEYS: body
local function storage_here(id)
  return redis.call('HEXISTS', body, id) == 1
end

-- storage_waiting_count(): how many entries count against `max_waiting`.
-- Default: the counter `waiting`; a kind without it has waiting and delayed entries in one sorted set.
-- KEYS: delay
-- USES: counters
local function storage_waiting_count()
  return counters_known.waiting or redis.call('ZCARD', delay)
end

-- storage_refuses(following, state): whether an entry with that `following` must not come in.
-- Default: all may.
local function storage_refuses()
  return false
end

-- storage_check_arrival(payload, following): before an entry is accepted: fails the call if a key that
-- no header can name stands in the way.
-- Default: there are no such keys.
local function storage_check_arrival() end

-- storage_place(id, payload, following): store an entry that comes from elsewhere as a dead one; it is
-- moved on to its state at once. Returns its id here, and the result that is kept of it: ok, and more
-- words.
-- Default: under the id that it had.
-- KEYS: body
local function storage_place(id, payload)
  redis.call('HSET', body, id, payload)
  return id, 'ok'
end

-- storage_merge(id, state, payload, following): an entry in `state` comes from another shard, with what
-- `storage_following` gave there (or false), and one of its id is here. Make the two one; returns true
-- if that was possible, and false to try again later.
-- Default: never.
local function storage_merge()
  return false
end

-- storage_placed(id, result): read what `storage_place` returned. Returns the id here, the first word
-- of the result (nil if the entry is another one by now), and the rest of it.
-- Default: there is no rest.
local function storage_placed(id, result)
  return id, result, ''
end

-- storage_step_ended(op, step, state): a step of a move to another queue has ended: each entry that it
-- took out of `state` is in the other queue, or back.
-- Default: nothing depends on it.
local function storage_step_ended() end

-- storage_relative_times: whether every ready time is counted from when it was set, so that a clock
-- that fell back makes all of them late.
local storage_relative_times = false

-- storage_timed(zset, id, ms): the score of an entry in `zset` (lease or delay) was corrected to `ms`.
-- Default: the kind stores these times nowhere else.
local function storage_timed() end

-- storage_extended(scores): leases were renewed; deadline and id by turns.
-- Default: the kind stores deadlines nowhere else.
local function storage_extended() end

-- storage_scan(cursor, max): a page of the ids of all entries, whatever their state. Returns the next
-- cursor ('0': that was all), and a list of ids and payloads by turns. An entry that is in the queue
-- from the first call to the last is named at least once.
-- KEYS: body
local function storage_scan(cursor, max)
  local page = redis.call('HSCAN', body, cursor, 'COUNT', max)
  return page[1], page[2]
end

-- storage_empty(): whether a shard that is given up has nothing left that must stay.
-- Default: the engine has looked at all there is.
local function storage_empty()
  return true
end

-- storage_clear(): remove what a shard that is given up leaves in the kind's own keys.
-- Default: nothing.
local function storage_clear() end
