-- The keys that a later step of `front` writes and hasn't read.
-- IMPLEMENTS: storage_check_range
-- USES: type_check_flush
local function storage_check_range()
  type_check_flush()
end
