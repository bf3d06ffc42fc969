-- Names of operations that move entries between two queues; no other operation has names like these. If
-- an entry in the trash has the name of a move, the entry lives in another queue. If it has the name of
-- a move's undo, the undo brought it back to its source (transfer_revert.lua).
local TRANSFER_NAMES_MOVED = '^move%-%x%x%x%x%x%x%x%x%x%x$'

local function transfer_names_away(op)
  -- mutant restored here and there: op:find(TRANSFER_NAMES_MOVED) or =>
  return op:find(TRANSFER_NAMES_MOVED) or op:find('^undo%-move%-%x%x%x%x%x%x%x%x%x%x$')
end
