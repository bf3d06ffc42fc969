-- Entries that go the same way, one after the other; `false` is one that may not. Returns those that
-- were moved, and how many couldn't be: it ends early where that is as much as a call is for.
-- USES: storage
local function room_run(ids, from, to)
  local moved, stuck, stays = {}, 0, {failures = 0, lost = 0, first = 0}
  for k = 1, #ids do
    local id = ids[k]
    local so = id and room_move(id, from, to, stays)
    if so == false then
      stuck = stuck + 1
    else
      moved[#moved + 1] = id
      if so == 'full' then break end
    end
  end
  return moved, stuck
end
