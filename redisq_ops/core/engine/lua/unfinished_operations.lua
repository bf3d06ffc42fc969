-- Moves between two queues that are not finished: a sorted set of their names -> the time of the last
-- step. An entry that such a move left in a trash may be the only copy. So these entries aren't
-- removed, and the move's undo lists and results don't expire, until `finish_transfer` takes its
-- name off the list.
-- KEYS: unfinished op_
-- USES: transfer_names
local function unfinished_operations_has(op)
  return redis.call('ZSCORE', unfinished, op) ~= false
end

-- Whether an entry in the trash, left there by that operation, must stay: a move took it out, or an undo
-- is taking it back from here. Without a readable record (`-`) nobody can tell, so it stays.
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

-- List an operation, or note that a run still works on it.
local function unfinished_operations_add(op)
  redis.call('ZADD', unfinished, now, op)
  redis.call('PERSIST', op_ .. op)
end

-- Keep the entry of an operation in the audit log for a month after its last step.
local function unfinished_operations_keep(op)
  if not unfinished_operations_has(op) then redis.call('PEXPIRE', op_ .. op, 2592000000) end
end

-- Set a time to live if the key has none.
local function unfinished_operations_expire(key, ttl_ms)
  if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ttl_ms) end
end
