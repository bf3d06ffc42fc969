-- Changes of state that a flush will write, and what that flush reads before its first write.
-- `changes_moved`: id, from, to, and whether the delivery failed, by turns.
-- KEYS: body lease delay dead trash holes ring clients packing resting
-- IMPLEMENTS: storage_moved storage_done storage_score storage_prepare
-- USES: list_append deliveries client_ring accounts results type_check
local changes_moved, done = {}, {}

local function storage_moved(id, from, to, r, value)
  local n = #changes_moved
  -- mutant results lost: (id, value) => (id, '')
  if value then results_keep(id, value) end
  if to == 'dead' then results_dead(id) end
  if (to == 'done' or to == 'gone') and not value then results_none({id}) end
  if to == 'done' then
    done[#done + 1] = id
  else
    changes_moved[n + 1], changes_moved[n + 2] = id, from
    changes_moved[n + 3], changes_moved[n + 4] = to, r and r.failed or false
  end
end

local function storage_done(ids)
  list_append(done, ids)
  results_none(ids)
end

local function storage_score(id, state)
  local zsets = {pending = lease, delayed = delay, dead = dead, trash = trash}
  if state ~= 'waiting' then return zsets[state] and redis.call('ZSCORE', zsets[state], id) or nil end
  if redis.call('HEXISTS', body, id) == 0 then return nil end
  for _, zset in pairs(zsets) do
    if redis.call('ZSCORE', zset, id) then return nil end
  end
  return '0'
end

-- What a flush reads before its first write. Plain acknowledgements take a short way (deliveries.lua).
local changes_shifts -- ids, their clients, rows that `owner` lacks, length of `changes_moved`
local changes_kept, changes_gone = {}, {}
local function storage_prepare()
  results_check()
  if #done > 0 then
    type_check_key(body, 'hash')
    local kept, gone, rest = deliveries_read(done)
    list_append(changes_kept, kept)
    list_append(changes_gone, gone)
    done = {}
    for _, id in ipairs(rest) do
      local n = #changes_moved
      changes_moved[n + 1], changes_moved[n + 2] = id, 'pending'
      changes_moved[n + 3], changes_moved[n + 4] = 'done', false
    end
  end
  if #changes_moved > 0 and not (changes_shifts and changes_shifts.n == #changes_moved) then
    for _, key in ipairs({body, holes}) do type_check_key(key, 'hash') end
    local ids = {}
    for i = 1, #changes_moved, 4 do ids[#ids + 1] = changes_moved[i] end
    local whose, owned = deliveries_owners(ids)
    accounts_load(whose)
    changes_shifts = {ids = ids, whose = whose, owned = owned, n = #changes_moved}
  end
  local turns = #changes_moved > 0
  local rated = false
  for _, a in pairs(accounts_touched) do
    turns, rated = turns or not client_ring_keeps(a), rated or a.rate > 0
  end
  if rated then type_check_key(resting, 'zset') end
  if turns then
    accounts_virtual_time()
    for _, key in ipairs({ring, clients, packing}) do type_check_key(key, 'zset') end
  end
end
