-- The fair queue: a list of ids per client, and `ring`, the clients that can be served, by the
-- virtual time at which their turn comes (start-time fair queueing): serving an entry moves a client
-- on by TURN / weight, and who joins begins at the present virtual time, `vt` in stat.
-- Delivered entries have their client in `owner`; all have it in front of their payload in `body`.
-- KEYS: body owner
-- USES: append back pack ring history
local waiting_zset = nil
local moved, done = {}, {}

local function room_move(id, from, to, r)
  local n = #moved
  if to == 'done' then
    done[#done + 1] = id
  else
    moved[n + 1], moved[n + 2], moved[n + 3], moved[n + 4] = id, from, to, r and r.failed or false
  end
end

local function room_done(ids) append(done, ids) end
local function room_again() return nil end

local function room_score(id, state)
  local zsets = {pending = lease, delayed = delay, dead = dead, trash = trash}
  if state ~= 'waiting' then return zsets[state] and redis.call('ZSCORE', zsets[state], id) or nil end
  if redis.call('HEXISTS', body, id) == 0 then return nil end
  for _, zset in pairs(zsets) do
    if redis.call('ZSCORE', zset, id) then return nil end
  end
  return '0'
end

-- What a flush reads, and may refuse, before its first write.
local shifts -- ids, whose they are, what `owner` doesn't know, and how many words of `moved` that was
local back_kept, back_gone = {}, {}
local function room_read()
  if #done > 0 then
    must_be(body, 'hash')
    local kept, gone, rest = read_back(done)
    append(back_kept, kept)
    append(back_gone, gone)
    done = {}
    for _, id in ipairs(rest) do
      local n = #moved
      moved[n + 1], moved[n + 2], moved[n + 3], moved[n + 4] = id, 'pending', 'done', false
    end
  end
  if #moved > 0 and not (shifts and shifts.n == #moved) then
    for _, key in ipairs({body, holes}) do must_be(key, 'hash') end
    local ids = {}
    for i = 1, #moved, 4 do ids[#ids + 1] = moved[i] end
    local whose, owned = owners(ids)
    open_accounts(whose)
    shifts = {ids = ids, whose = whose, owned = owned, n = #moved}
  end
  if #moved > 0 or next(touched) then
    for _, key in ipairs({ring, clients, packing}) do must_be(key, 'zset') end
  end
end

local function shift_moved()
  local gone, made, fronts, backs = {}, {}, {}, {}
  local ids, whose, owned = shifts.ids, shifts.whose, shifts.owned
  shifts = nil
  for k, id in ipairs(ids) do
    local from, to, failed = moved[4 * k - 2], moved[4 * k - 1], moved[4 * k]
    local name, ended = whose[k], to == 'done' or to == 'gone'
    if ended then gone[#gone + 1] = id end
    if name then -- else its payload was evicted or removed by hand: no reason to stop the queue
      local a = account(name)
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
      if to == 'waiting' then -- what failed, or was dead, has had its turn; the rest has not
        local lists = (failed or from == 'dead') and backs or fronts
        if not lists[name] then lists[name] = {} end
        table.insert(lists[name], id)
      end
    end
  end
  moved = {}
  if #made > 0 then redis.call('HSET', holes, unpack(made)) end
  for name, list in pairs(fronts) do join(account(name), list, true) end
  for name, list in pairs(backs) do join(account(name), list) end
  if #owned > 0 then redis.call('HSET', owner, unpack(owned)) end
  if #gone > 0 then
    for _, key in ipairs({body, owner}) do redis.call('HDEL', key, unpack(gone)) end
  end
end

local function room_flush()
  write_back(back_kept, back_gone)
  back_kept, back_gone, lessened = {}, {}, {}
  if #moved > 0 then shift_moved() end
  if next(touched) then write_accounts() end
end
