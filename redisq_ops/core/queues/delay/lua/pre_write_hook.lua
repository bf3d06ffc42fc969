-- The keys that a later step of `front` writes and hasn't read.
-- USES: type_check_flush
local function fit_written()
  fit_flushed()
end
