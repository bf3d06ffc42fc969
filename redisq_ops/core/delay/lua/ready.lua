-- The keys that a change writes.
-- USES: written room
local function room_ready()
  fit_moves()
  if #gone > 0 then
    must_be(body, 'hash')
    must_be(next, 'hash')
  end
end

local function room_fits() end
