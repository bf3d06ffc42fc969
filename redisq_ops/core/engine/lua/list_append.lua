-- `list_append(list, more)` adds one list to another. Calling `#` and `ipairs` for each element
-- would double its cost.
local function list_append(list, more)
  local n = #list
  for i = 1, #more do list[n + i] = more[i] end
end
