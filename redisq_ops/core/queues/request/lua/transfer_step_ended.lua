-- A step of a move to another queue has ended.
-- KEYS: undo_ op_
-- ARGV: op step state
-- USES: transitions step_ended
-- FLAGS: allow-oom
ended(op, step, state)
flush()
return 1
