-- What is to run after an entry's present delivery: nothing, unless the kind has such runs.
-- KEYS: body
local function following(ids)
  return {}
end

local function follow(id, row) end
