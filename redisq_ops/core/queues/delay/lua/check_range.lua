-- The keys that a step of `move_range` writes and hasn't read.
-- IMPLEMENTS: storage_check_range
-- USES: type_check_flush
local function storage_check_range()
  type_check_flush()
end
