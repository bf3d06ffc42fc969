-- Take a move between two queues off the list of unfinished ones, and let expire what was kept for it:
-- the source queue's undo lists and the target queue's results. Does nothing if another run has
-- worked on the move since: after `at` (ms), or with a step behind `steps`, or an undo where `steps` is
-- given. `at` and `steps` may be empty.
-- KEYS: undo_ land_ unfinished op_
-- ARGV: op at steps
-- USES: config unfinished_operations
-- ENTRIES: op_{op}=hash
-- FLAGS: allow-oom
-- Returns 1, or 0 if another run has worked on it.
local is = tonumber(redis.call('ZSCORE', unfinished, op) or nil)
local last, holding, taking, landing, keep, undoing, verb = unpack(redis.call('HMGET', op_ .. op,
  'steps', 'holding', 'taking', 'landing', 'keep', 'undoing', 'verb'))
if at ~= '' and is and is > tonumber(at) then return 0 end
if steps ~= '' and (undoing or tonumber(last or '0') > tonumber(steps)) then return 0 end
for _, step in ipairs({holding or last or '0', taking or '0'}) do
  unfinished_operations_expire(undo_ .. op .. ':' .. step, config.trash_ms)
end
if landing then unfinished_operations_expire(land_ .. op .. ':' .. landing, keep) end
if steps ~= '' and verb then redis.call('HSET', op_ .. op, 'landed', steps) end
redis.call('ZREM', unfinished, op)
unfinished_operations_keep(op)
return 1
