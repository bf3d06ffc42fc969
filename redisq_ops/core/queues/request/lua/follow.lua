-- What goes along with a sub-request that is moved to another queue: how its request is to be worked on.
-- USES: request_records
local function following(ids)
  local found = {}
  for k, id in ipairs(ids) do
    local q = located(id)
    found[k] = q and string.format('%d %d %d %s', q.priority, q.limit, q.paused, q.state)
  end
  return found
end

local function follow(id, row) end
