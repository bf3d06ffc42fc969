-- The keys that a later step of `front` writes and hasn't read: of most kinds, all that there are.
-- USES: type_check
local function fit_written()
  fit()
end
