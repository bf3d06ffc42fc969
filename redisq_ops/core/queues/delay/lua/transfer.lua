-- The run that follows an entry's present delivery: its time and payload.
-- KEYS: next
-- IMPLEMENTS: storage_next_runs
local storage_next_runs = next
