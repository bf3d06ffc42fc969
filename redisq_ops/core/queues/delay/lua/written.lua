-- The keys that a later step of `front` writes and hasn't read.
-- USES: flushed
local function fit_written()
  fit_flushed()
end
