-- Entries that are to wait with a client whose list is a key of another type. Those that a worker's
-- call brings back are put off and tried again later; an operator's call fails as a whole.
-- KEYS: delay
-- IMPLEMENTS: storage_check storage_check_arrival
-- USES: waiting_lists accounts changes deliveries
local match = string.match
local PUT_OFF = 10000
local looked_at, looked = nil, 0

local function storage_check(admit)
  if looked_at == changes_moved and looked == #changes_moved then return end
  looked_at, looked = changes_moved, #changes_moved
  local ids, at = {}, {}
  for i = 1, looked, 4 do
    if changes_moved[i + 2] == 'waiting' then ids[#ids + 1], at[#at + 1] = changes_moved[i], i end
  end
  if #ids == 0 then return end
  local whose = deliveries_owners(ids)
  for k, id in ipairs(ids) do
    local wrong = whose[k] and waiting_lists_mismatch(whose[k])
    if wrong and run_by ~= 'worker' then error(wrong) end
    if wrong then
      changes_moved[at[k] + 2] = 'delayed'
      admit(delay, now + PUT_OFF, id)
    end
  end
end

local function storage_check_arrival(content)
  local name = match(content, '^%S+')
  local wrong = waiting_lists_mismatch(name)
  if wrong then error(wrong) end
  accounts_load({name})
end
