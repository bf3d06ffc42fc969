-- Keep a step's results (what became of each entry that came from another queue) until the whole move
-- is finished: whoever resumes it asks for them. The results of the step before expire from now on.
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
