-- The delay set: one sorted set of ready times. An entry is delayed until its time and waiting from
-- then on; both are the same key, so becoming due costs nothing.
-- A delivered entry keeps its ready time in its record and returns to it, so order survives.
-- `seen`: marks of what was handed over to here, by when; each is taken in once.
-- KEYS: body next seen
-- USES: append fit wake history counters
local waiting_zset = delay
local gone, woken = {}, 0
local follows -- whether any entry is to run again; asked once

local function room_move(id, from, to, r)
  if to == 'done' or to == 'gone' then
    gone[#gone + 1] = id
  elseif to == 'waiting' or to == 'delayed' then
    woken = woken + 1
  end
end

local function room_done(ids) append(gone, ids) end

-- Rescheduled while it was being worked on: its next ready time, and the payload then.
local function room_again(id)
  if follows == nil then follows = redis.call('EXISTS', next) == 1 end
  local row = follows and redis.call('HGET', next, id)
  if not row then return nil end
  fit()
  redis.call('HDEL', next, id)
  local at, content = row:match('^(%d+) (.*)$')
  redis.call('HSET', body, id, content)
  return tonumber(at)
end

local function room_score(id, state)
  local zset = ({pending = lease, delayed = delay, waiting = delay, dead = dead, trash = trash})[state]
  return zset and redis.call('ZSCORE', zset, id) or nil
end

local function room_flush()
  if #gone > 0 then
    redis.call('HDEL', body, unpack(gone))
    if follows ~= false then redis.call('HDEL', next, unpack(gone)) end
  end
  if woken > 0 then wake_workers(woken) end
  gone, woken = {}, 0
end

local function room_retire(max)
  local old = redis.call('ZRANGE', seen, '-inf', now - conf.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  if #old > 0 then redis.call('ZREM', seen, unpack(old)) end
  return #old
end
