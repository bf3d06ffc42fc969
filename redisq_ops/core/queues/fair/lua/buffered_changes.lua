-- What is noted of entries' changes of state, and what a flush of them reads before its first write.
-- KEYS: body owner
-- USES: list_append end_deliveries client_ring waiting_lists
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
  local turns = #moved > 0
  for _, a in pairs(touched) do turns = turns or not keeps_turn(a) end
  if turns then
    virtual_time()
    for _, key in ipairs({ring, clients, packing}) do must_be(key, 'zset') end
  end
end
