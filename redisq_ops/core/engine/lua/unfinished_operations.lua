-- Moves between two queues that are not finished: the sorted set of their names -> the time of the last
-- step. What one of them left in a trash may be the only copy there is, so nothing of it is freed, and
-- what is kept of it has no time to live, before `finish_operation` takes its name off the list.
-- KEYS: unfinished op_
-- USES: transfer_names
local function unfinished_operations_has(op)
  return redis.call('ZSCORE', unfinished, op) ~= false
end

-- Whether an entry in the trash, left there by that operation, must stay: taken out by a move, or, under
-- the name of an undo, on its way back from here. Without a readable record (`-`) nobody can tell.
local held_by = {}
local function unfinished_operations_hold(op)
  if op ~= '-' and not transfer_names_away(op) then return false end
  if held_by[op] == nil then
    local moved = op:find(TRANSFER_NAMES_MOVED)
    held_by[op] = moved and unfinished_operations_has(op)
      or not moved and redis.call('EXISTS', unfinished) == 1
  end
  return held_by[op]
end

-- List an operation, or note that whoever carries it out is alive.
local function unfinished_operations_add(op)
  redis.call('ZADD', unfinished, now, op)
  redis.call('PERSIST', op_ .. op)
end

-- What is kept of an operation is kept for a month behind its last step.
local function unfinished_operations_keep(op)
  if not unfinished_operations_has(op) then redis.call('PEXPIRE', op_ .. op, 2592000000) end
end

-- A time to live for what none was set for while it was needed.
local function unfinished_operations_expire(key, ttl_ms)
  if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ttl_ms) end
end
