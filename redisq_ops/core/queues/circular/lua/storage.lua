-- The circle: what an id's changes of state do to the list, and to the runs that follow.
-- `seen`: marks of what came from other shards, by when; each is taken in once.
-- KEYS: seen
-- USES: list_append element_state elements restore_elements wake_workers history counters
local waiting_zset = nil
local ended, back, front, leaving, reborn, woken = {}, {}, {}, {}, {}, 0

-- Into the list: behind all others, or ahead of them if it had its turn and lost it.
local function enter(id, ahead)
  local list = ahead and front or back
  list[#list + 1] = id
end

local function room_move(id, from, to, r)
  if to == 'dead' and from == 'pending' and room_again(id) then
    reborn[#reborn + 1] = id -- what was pushed meanwhile doesn't die with it
    to, r = 'waiting', nil
  end
  if to == 'done' or to == 'gone' then ended[#ended + 1] = id end
  if to == 'waiting' then woken = woken + 1 end
  if resides(to) and not resides(from) then
    enter(id, from == 'pending' and r and r.first > 0)
  elseif resides(from) and not resides(to) then
    leaving[#leaving + 1] = id
  end
end

local function room_done(ids)
  append(ended, ids)
  if rotate then append(leaving, ids) end
end

-- Where a list loses elements or gets some, they are counted.
local function room_read()
  if #ended + #leaving + #back + #front + #begun + #owed == 0 then return end
  must_be(body, 'hash')
  must_be(queue, 'list')
  must_be(spent, 'hash')
  must_be(again, 'hash')
end

local function room_flush()
  write_runs()
  if #ended > 0 then
    redis.call('HDEL', body, unpack(ended))
    if follows ~= false then redis.call('HDEL', again, unpack(ended)) end
  end
  if #reborn > 0 then
    for _, key in ipairs({meta, err}) do redis.call('HDEL', key, unpack(reborn)) end
    redis.call('ZREM', dead, unpack(reborn))
  end
  if #leaving > 0 then spend(leaving) end
  if #back > 0 then place(back, 'LPUSH') end
  if #front > 0 then place_ahead(front) end
  if woken > 0 then
    if rings then wake_workers(woken) end
    if rotate then redis.call('HDEL', stat, 'lap', 'barren', 'vain') end
  end
  ended, back, front, leaving, reborn, woken = {}, {}, {}, {}, {}, 0
end

local function room_retire(max)
  local old = redis.call('ZRANGE', seen, '-inf', now - conf.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  if #old > 0 then redis.call('ZREM', seen, unpack(old)) end
  return #old + mend(max)
end
