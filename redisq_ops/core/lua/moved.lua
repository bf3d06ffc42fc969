-- The names that moves between queues have, and nothing else an operator does (`journal.new_id`): what
-- lies in the trash under one of them lives in another queue.
local MOVED = '^move%-%x%x%x%x%x%x%x%x%x%x$'
