-- The list that a map has under a key; a new one if it has none.
local function list_of(map, key)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  return list
end
