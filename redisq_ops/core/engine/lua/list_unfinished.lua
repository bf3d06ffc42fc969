-- List a move between two queues as unfinished, or note that a run still works on it. `idle`: only if
-- no run has worked on it for so long (ms), or the clock fell back since; empty: in any case. `step`:
-- the step that is to be undone now, whose undo list must not expire meanwhile; 0: none.
-- KEYS: undo_ unfinished op_
-- ARGV: op step idle
-- USES: config unfinished_operations
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns the time (ms), or 0 if a run works on it.
local at = tonumber(redis.call('ZSCORE', unfinished, op) or nil)
if idle ~= '' and at and now >= at and now - at < tonumber(idle) then return 0 end
unfinished_operations_add(op)
-- Undo goes from the last step to the first. Another run begins at the last step again: the earliest
-- step that was begun stays recorded, since its entries may be in transit.
local before = tonumber(redis.call('HGET', op_ .. op, 'taking') or '0') or 0
if step ~= '0' and (before == 0 or tonumber(step) <= before) then
  if before ~= 0 and before ~= tonumber(step) then
    unfinished_operations_expire(undo_ .. op .. ':' .. before, config.trash_ms)
  end
  redis.call('HSET', op_ .. op, 'taking', step)
  redis.call('PERSIST', undo_ .. op .. ':' .. step)
end
return now
