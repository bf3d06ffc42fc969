-- The delay set: one sorted set of ready times. An entry is delayed until its time and waiting from
-- then on; both are the same key, so becoming due costs nothing. A delivered entry keeps its ready time
-- in its record and returns to it, so the order survives. `seen`: marks of entries that came from other
-- shards or queues -> when; each is taken in once. What a handler returned is kept (results.lua).
-- KEYS: body next seen delay lease dead trash
-- IMPLEMENTS: storage_waiting_zset storage_moved storage_done storage_again storage_score
-- IMPLEMENTS: storage_prepare storage_flush storage_retire storage_move_range storage_still_in
-- USES: list_append type_check wake_workers config corrupt_values results
local storage_waiting_zset = delay
local gone, woken = {}, 0
local begun, renewed = {}, {} -- runs that begin: ids, and ids with payloads
local follows -- whether any entry is to run again; read once

local function storage_moved(id, from, to, r, value)
  -- mutant results lost: (id, value) => (id, '')
  if value then results_keep(id, value) end
  if to == 'done' or to == 'gone' then
    gone[#gone + 1] = id
    if not value then results_none({id}) end
  elseif to == 'waiting' or to == 'delayed' then
    woken = woken + 1
  elseif to == 'dead' then
    results_dead(id)
  end
end

local function storage_done(ids)
  list_append(gone, ids)
  results_none(ids)
end

-- Rescheduled while it was delivered: the next ready time and payload are in `next`.
local function storage_again(id)
  if follows == nil then follows = redis.call('EXISTS', next) == 1 end
  local row = follows and redis.call('HGET', next, id)
  -- mutant the next run forgotten: not row => true
  if not row then return nil end
  local at, content = row:match('^(%d+) (.*)$')
  if not at then corrupt_values_fail(next, id, 'a time and a payload') end
  begun[#begun + 1] = id
  results_none({id})
  renewed[#renewed + 1], renewed[#renewed + 2] = id, content
  return tonumber(at)
end

local zsets = {pending = lease, delayed = delay, waiting = delay, dead = dead, trash = trash}
local function storage_score(id, state)
  return zsets[state] and redis.call('ZSCORE', zsets[state], id) or nil
end

-- A delivery and a new time remove the operation's name from the record, so an entry that waited
-- and still has the name waits now.
local function storage_still_in(ids, state)
  return state ~= 'waiting' and redis.call('ZMSCORE', zsets[state], unpack(ids)) or nil
end

local function storage_prepare()
  results_check()
  if #gone + #begun == 0 then return end
  type_check_key(body, 'hash')
  if follows ~= false then type_check_key(next, 'hash') end
end

local function storage_flush()
  if #begun > 0 then
    redis.call('HDEL', next, unpack(begun))
    redis.call('HSET', body, unpack(renewed))
    begun, renewed = {}, {}
  end
  if #gone > 0 then
    redis.call('HDEL', body, unpack(gone))
    if follows ~= false then redis.call('HDEL', next, unpack(gone)) end
  end
  if woken > 0 then wake_workers(woken) end
  results_flush()
  gone, woken = {}, 0
end

local function storage_retire(max)
  local old = redis.call('ZRANGE', seen, '-inf', now - config.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  -- mutant what arrived is known for ever: redis.call('ZREM', seen, unpack(old)) => old = {}
  if #old > 0 then redis.call('ZREM', seen, unpack(old)) end
  return #old + results_retire(max)
end

-- Every entry of this kind can be moved, so none has to be looked at.
local function storage_move_range(ids, _, to)
  local moved, n = {}, 0
  for k = 1, #ids do
    if ids[k] then n, moved[n + 1] = n + 1, ids[k] end
  end
  if to == 'gone' then
    -- mutant a whole state emptied, and its payloads kept
    storage_done(moved)
  elseif to == 'waiting' then
    woken = woken + n
  end
  return moved, #ids - n
end
