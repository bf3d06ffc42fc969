-- List a move between two queues as unfinished, or note that whoever is at it is alive. `idle`: only if
-- nobody was at it for so long (ms), or the clock fell back since; empty: in any case. `step`: the one
-- that is to be taken back now, whose undo list must not expire meanwhile; 0: none.
-- KEYS: undo_ unfinished op_
-- ARGV: op step idle
-- USES: config unfinished_operations
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns the time (ms), or 0 if somebody is at it.
local at = tonumber(redis.call('ZSCORE', unfinished, op) or nil)
if idle ~= '' and at and now >= at and now - at < tonumber(idle) then return 0 end
unfinished_operations_add(op)
if step ~= '0' then
  local before = redis.call('HGET', op_ .. op, 'taking')
  if before and before ~= step then
    unfinished_operations_expire(undo_ .. op .. ':' .. before, config.trash_ms)
  end
  redis.call('HSET', op_ .. op, 'taking', step)
  redis.call('PERSIST', undo_ .. op .. ':' .. step)
end
return now
