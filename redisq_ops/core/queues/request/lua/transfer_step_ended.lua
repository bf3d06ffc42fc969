-- A step of a move to another queue has ended.
-- ARGV: op step state
-- USES: transitions audit_log storage_step_ended
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns 1.
audit_log_check(op)
storage_step_ended(op, step, state)
transitions_flush()
return 1
