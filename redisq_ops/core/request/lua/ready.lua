-- The keys of the requests that a change touches: their streams, and the lists their tokens go to.
-- USES: room fit
local function room_ready()
  for rid, q in pairs(touched) do
    local wrong = misfit(q.stream, 'stream') or misfit(p_ .. q.priority, 'list')
    if wrong then error(wrong) end
  end
end

local function room_fits() end
