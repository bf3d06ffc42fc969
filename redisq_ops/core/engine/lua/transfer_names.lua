-- Names of operations that move entries between two queues; no other operation has names like these. An
-- entry in the trash under the name of a move lives in another queue. One under the name of a move's
-- undo was brought back to where it came from (transfer_revert.lua).
local TRANSFER_NAMES_MOVED = '^move%-%x%x%x%x%x%x%x%x%x%x$'

local function transfer_names_away(op)
  return op:find(TRANSFER_NAMES_MOVED) or op:find('^undo%-move%-%x%x%x%x%x%x%x%x%x%x$')
end
