-- What a flush changes in the list: ids that enter at the back or at the front, ids that leave, and how
-- many begin to wait (`list_changes_woken`).
local list_changes_back, list_changes_front, list_changes_leaving, list_changes_woken = {}, {}, {}, 0

-- `ahead`: the entry had its turn and lost it, so it is taken before the others.
local function list_changes_enter(id, ahead)
  local list = ahead and list_changes_front or list_changes_back
  list[#list + 1] = id
end
