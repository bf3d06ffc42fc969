-- The state of an id, and the runs that follow its present one. `body` has every id that is in the
-- queue, with its payload. `again`: id -> the payload of the run that follows, or where each push is a
-- run, how many follow. `transit`: ids on their way to another shard.
-- KEYS: body again transit meta lease delay dead trash
-- IMPLEMENTS: storage_score storage_again
-- USES: elements
local state_follows, state_moving -- whether any is to run again, or in transit; read once

local function state_next_run(id)
  if state_follows == nil then state_follows = redis.call('EXISTS', again) == 1 end
  return state_follows and redis.call('HGET', again, id)
end

-- The state of an id that is in the queue, by its record's line.
local function state_of(id, line)
  if line and line:byte() ~= 45 then return 'pending' end -- no minus, so a receipt: it is delivered
  if state_moving == nil then state_moving = redis.call('EXISTS', transit) == 1 end
  if state_moving and redis.call('HEXISTS', transit, id) == 1 then return 'transit' end
  for state, zset in pairs(line and {delayed = delay, dead = dead, trash = trash} or {}) do
    if redis.call('ZSCORE', zset, id) then return state end
  end
  return 'waiting'
end

local function storage_score(id, state)
  local zset = ({pending = lease, delayed = delay, dead = dead, trash = trash})[state]
  if zset then return redis.call('ZSCORE', zset, id) or nil end
  if state ~= 'waiting' or redis.call('HEXISTS', body, id) == 0 then return nil end
  return state_of(id, redis.call('HGET', meta, id)) == 'waiting' and '0' or nil
end

-- Add `n` runs of an id.
local function state_run_again(id, n)
  local left = redis.call('HGET', again, id)
  redis.call('HSET', again, id, (left and elements_number(left) or 0) + n)
end

-- Runs that begin with a flush: ids without further runs, ids with the runs that are left, new payloads.
local state_begun, state_owed, renewed = {}, {}, {}
local function state_write_runs()
  -- mutant what follows has the payload of before: redis.call('HSET', body, unpack(renewed)) =>
  if #renewed > 0 then redis.call('HSET', body, unpack(renewed)) end
  if #state_begun > 0 then redis.call('HDEL', again, unpack(state_begun)) end
  if #state_owed > 0 then redis.call('HSET', again, unpack(state_owed)) end
  state_begun, state_owed, renewed = {}, {}, {}
end

-- Pushed while it was delivered: the run that follows begins.
local function storage_again(id)
  local row = state_next_run(id)
  if not row then return nil end
  -- mutant what follows comes but once: not elements_each or elements_number(row) <= 1 => true
  if not elements_each or elements_number(row) <= 1 then
    state_begun[#state_begun + 1] = id
  else
    state_owed[#state_owed + 1], state_owed[#state_owed + 2] = id, elements_number(row) - 1
  end
  if not elements_each then renewed[#renewed + 1], renewed[#renewed + 2] = id, row end
  return now
end
