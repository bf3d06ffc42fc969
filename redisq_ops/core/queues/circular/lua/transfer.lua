-- The runs after an id's present delivery (the payload of the next one, or their number), and how
-- many entries count against `max_waiting`.
-- KEYS: again
-- IMPLEMENTS: storage_next_runs storage_waiting_count
-- USES: elements
local storage_next_runs = again

local function storage_waiting_count()
  return elements_waiting()
end
