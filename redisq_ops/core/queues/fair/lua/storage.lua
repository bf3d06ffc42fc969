-- The fair queue: a list of ids per client, and `ring`, the clients that can be served, by the virtual
-- time of their next turn (start-time fair queueing): each entry that is served moves its client on by
-- TURN / weight, and a client that joins begins at the present virtual time, `vt` in stat. `owner` has
-- the clients of delivered entries; in `body` each payload has its client in front.
-- KEYS: body owner holes
-- IMPLEMENTS: storage_flush
-- USES: changes deliveries client_ring accounts results waiting_lists
local function shift_moved()
  local gone, made, fronts, backs = {}, {}, {}, {}
  local ids, whose, owned = changes_shifts.ids, changes_shifts.whose, changes_shifts.owned
  changes_shifts = nil
  for k, id in ipairs(ids) do
    local from, to, failed = changes_moved[4 * k - 2], changes_moved[4 * k - 1], changes_moved[4 * k]
    local name, ended = whose[k], to == 'done' or to == 'gone'
    if ended then gone[#gone + 1] = id end
    if name then -- else its payload is gone: no reason to stop the queue
      local a = accounts_change(name)
      -- mutant pending ones never counted back: math.max(0, a.pending - 1) => a.pending
      if from == 'pending' then a.pending = math.max(0, a.pending - 1) end
      if from == 'waiting' then
        made[#made + 1], made[#made + 2] = name .. '/' .. id, ended and '1' or '0'
        a.holes = a.holes + 1
        if ended then a.spent = a.spent + 1 end
        a.waiting = math.max(0, a.waiting - 1)
      elseif ended and a.holes > a.spent and redis.call('HGET', holes, name .. '/' .. id) == '0' then
        made[#made + 1], made[#made + 2] = name .. '/' .. id, '1'
        a.spent = a.spent + 1
      end
      if to == 'pending' then a.pending = a.pending + 1 end
      if to == 'waiting' then -- what failed or was dead has had its turn
        -- mutant what failed comes first: (failed or from == 'dead') and backs or =>
        local lists = (failed or from == 'dead') and backs or fronts
        if not lists[name] then lists[name] = {} end
        table.insert(lists[name], id)
      end
    end
  end
  changes_moved = {}
  if #made > 0 then redis.call('HSET', holes, unpack(made)) end
  -- mutant what was lost comes last: , true =>
  for name, list in pairs(fronts) do waiting_lists_add(accounts_change(name), list, true) end
  for name, list in pairs(backs) do waiting_lists_add(accounts_change(name), list) end
  if #owned > 0 then redis.call('HSET', owner, unpack(owned)) end
  if #gone > 0 then
    -- mutant owners kept: , owner =>
    for _, key in ipairs({body, owner}) do redis.call('HDEL', key, unpack(gone)) end
  end
end

local function storage_flush()
  deliveries_write(changes_kept, changes_gone)
  changes_kept, changes_gone, accounts_lessened = {}, {}, {}
  if #changes_moved > 0 then shift_moved() end
  if next(accounts_touched) then client_ring_write() end
  results_flush()
end
