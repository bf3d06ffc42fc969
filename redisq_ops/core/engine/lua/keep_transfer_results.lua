-- What was said of the entries of a step that came from another queue is kept until the move is finished
-- there: who goes on with it asks for it. Of the step before, that has ended, so long as the other queue
-- can ask.
-- KEYS: land_ op_
-- USES: unfinished_operations
local function keep_transfer_results(op, step, keep_ms)
  local before, its_ms = unpack(redis.call('HMGET', op_ .. op, 'landing', 'keep'))
  if before and before ~= step then
    unfinished_operations_expire(land_ .. op .. ':' .. before, its_ms)
  end
  redis.call('HSET', op_ .. op, 'landing', step, 'keep', keep_ms)
  redis.call('PERSIST', land_ .. op .. ':' .. step)
  unfinished_operations_add(op)
end
