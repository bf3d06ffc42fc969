-- What a flush changes in the list.
local list_changes_back, list_changes_front, list_changes_leaving, list_changes_woken = {}, {}, {}, 0

-- Into the list: behind all others, or ahead of them if it had its turn and lost it.
local function list_changes_enter(id, ahead)
  local list = ahead and list_changes_front or list_changes_back
  list[#list + 1] = id
end
