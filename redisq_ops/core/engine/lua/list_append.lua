-- One list behind another, with as few calls as can be: `#` and `ipairs` in each turn would double it.
local function list_append(list, more)
  local n = #list
  for i = 1, #more do list[n + i] = more[i] end
end
