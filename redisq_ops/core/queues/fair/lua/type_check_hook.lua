-- Entries that are to wait with a client whose list is a key of another type. Those that workers bring
-- back are put off, and tried again then; what an operator asked for is refused as a whole.
-- USES: waiting_lists storage
local PUT_OFF = 10000
local workers = {take = true, settle = true, sweep = true}
local looked_at, looked = nil, 0

local function room_ready(admit)
  if looked_at == moved and looked == #moved then return end
  looked_at, looked = moved, #moved
  local ids, at = {}, {}
  for i = 1, looked, 4 do
    if moved[i + 2] == 'waiting' then ids[#ids + 1], at[#at + 1] = moved[i], i end
  end
  if #ids == 0 then return end
  local whose = owners(ids)
  for k, id in ipairs(ids) do
    local wrong = whose[k] and unfit(whose[k])
    if wrong and not workers[running] then error(wrong) end
    if wrong then
      moved[at[k] + 2] = 'delayed'
      admit(delay, now + PUT_OFF, id)
    end
  end
end

local function room_fits(content)
  local name = match(content, '^%S+')
  local wrong = unfit(name)
  if wrong then error(wrong) end
  open_accounts({name})
end
