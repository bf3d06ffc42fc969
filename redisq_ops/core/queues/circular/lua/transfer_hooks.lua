-- What the way in from another queue asks: whether an id is here, and how many wait.
-- KEYS: body
-- USES: elements
local function here(id)
  return redis.call('HEXISTS', body, id) == 1
end

local function crowd()
  return room_waiting()
end
