-- As the common one, of a kind where nothing holds an entry back.
-- USES: storage
local function room_run(ids, _, to)
  local moved, n = {}, 0
  for k = 1, #ids do
    local id = ids[k]
    if id then
      n = n + 1
      moved[n] = id
    end
  end
  if to == 'gone' then
    append(gone, moved)
  elseif to == 'waiting' then
    woken = woken + n
  end
  return moved, #ids - n
end
