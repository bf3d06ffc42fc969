-- The journal entry of an operator's operation, the hash op_<operation>. `operation_journal_check(op)`
-- fails the call if one of its counters isn't a whole number.
-- KEYS: op_
-- USES: corrupt_values
local COUNTED = {'done', 'undone', 'freed', 'landing', 'keep'}

local function operation_journal_check(op)
  corrupt_values_integers(op_ .. op, COUNTED)
end
