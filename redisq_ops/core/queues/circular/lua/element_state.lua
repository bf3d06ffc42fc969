-- What is known of an id. `body` has every one that is in the queue, with its payload. `again`: id ->
-- the payload of the run that follows the present one, or where each push is a run: how many follow.
-- `transit`: those on their way to another shard.
-- KEYS: body again transit meta lease delay dead trash
-- USES: type_check elements
local follows, moving -- whether any entry is to run again, or between two shards; asked once

local function next_run(id)
  if follows == nil then follows = redis.call('EXISTS', again) == 1 end
  return follows and redis.call('HGET', again, id)
end

-- The state of an id that is in the queue, by its record's line.
local function state_of(id, line)
  if line and line:byte() ~= 45 then return 'pending' end -- no minus: a receipt
  if moving == nil then moving = redis.call('EXISTS', transit) == 1 end
  if moving and redis.call('HEXISTS', transit, id) == 1 then return 'transit' end
  for state, zset in pairs(line and {delayed = delay, dead = dead, trash = trash} or {}) do
    if redis.call('ZSCORE', zset, id) then return state end
  end
  return 'waiting'
end

local function room_score(id, state)
  local zset = ({pending = lease, delayed = delay, dead = dead, trash = trash})[state]
  if zset then return redis.call('ZSCORE', zset, id) or nil end
  if state ~= 'waiting' or redis.call('HEXISTS', body, id) == 0 then return nil end
  return state_of(id, redis.call('HGET', meta, id)) == 'waiting' and '0' or nil
end

-- So many more runs of an id.
local function once_more(id, n)
  local left = redis.call('HGET', again, id)
  redis.call('HSET', again, id, (left and many(left) or 0) + n)
end

-- Runs that begin, by a flush: their ids, those that have more to come, and payloads that are new.
local begun, owed, renewed = {}, {}, {}
local function write_runs()
  if #renewed > 0 then redis.call('HSET', body, unpack(renewed)) end
  if #begun > 0 then redis.call('HDEL', again, unpack(begun)) end
  if #owed > 0 then redis.call('HSET', again, unpack(owed)) end
  begun, owed, renewed = {}, {}, {}
end

-- Pushed while it was worked on: begin the run that follows.
local function room_again(id)
  local row = next_run(id)
  if not row then return nil end
  if not each or many(row) <= 1 then
    begun[#begun + 1] = id
  else
    owed[#owed + 1], owed[#owed + 2] = id, many(row) - 1
  end
  if not each then renewed[#renewed + 1], renewed[#renewed + 2] = id, row end
  return now
end
