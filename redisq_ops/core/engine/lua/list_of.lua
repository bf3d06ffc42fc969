-- `list_of(map, key)`: the list under a key of a map; a new one if there is none.
local function list_of(map, key)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  return list
end
