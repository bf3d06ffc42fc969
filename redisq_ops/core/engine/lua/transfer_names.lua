-- The names that moves between queues have, and nothing else an operator does (`journal.new_id`): what
-- lies in the trash under one of them lives in another queue. What lies there under the name of an undo
-- was brought back to where it came from (`withdraw`).
local TRANSFER_NAMES_MOVED = '^move%-%x%x%x%x%x%x%x%x%x%x$'

local function transfer_names_away(op)
  return op:find(TRANSFER_NAMES_MOVED) or op:find('^undo%-%x%x%x%x%x%x%x%x%x%x$')
end
