-- The entry of an operation in the audit log, the hash op_<operation>. `audit_log_check(op)` fails the
-- call if one of its counters is not a whole number.
-- KEYS: op_
-- USES: corrupt_values
local COUNTED = {'done', 'undone', 'freed', 'landing', 'keep'}

local function audit_log_check(op)
  corrupt_values_integers(op_ .. op, COUNTED)
end
