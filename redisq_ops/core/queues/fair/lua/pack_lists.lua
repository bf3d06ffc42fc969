-- Packing: removing from lists what nobody waits for any more; and old results.
-- KEYS: packing c_ f_ accounts stat
-- IMPLEMENTS: storage_retire
-- USES: waiting_lists client_ring accounts counters results

-- Pack 500 ids of one list: spent holes go, everything else keeps its order. Returns how many it read.
local function pack()
  local name = redis.call('ZRANGE', packing, 0, 0)[1]
  if not name then return 0 end
  local readable, a = pcall(accounts_change, name)
  if not readable or waiting_lists_mismatch(name) then
    redis.call('ZADD', packing, now, name) -- after the others
    return 0
  end
  -- Use the length of the list itself: if the counts were wrong, ids would be lost.
  local rest = redis.call('LLEN', c_ .. name)
  local most = math.min(rest, 500)
  local ids = most > 0 and redis.call('LPOP', c_ .. name, most) or {}
  if #ids > 0 then
    local names, marks = waiting_lists_marks(a, ids)
    local kept = {}
    for i, id in ipairs(ids) do
      -- mutant spent holes kept: marks[i] ~= '1' => true
      -- mutant places that are wanted packed away: marks[i] ~= '1' => not marks[i]
      if marks[i] ~= '1' then
        kept[#kept + 1] = id
        marks[i] = false
      end
    end
    a.head = a.head + waiting_lists_fill(a, names, marks)
    if #kept > 0 then redis.call('RPUSH', f_ .. name, unpack(kept)) end
    a.packed = a.packed + #kept
  end
  if most == rest then -- c_ is empty and gone: nothing is overwritten
    if redis.call('EXISTS', f_ .. name) == 1 then redis.call('RENAME', f_ .. name, c_ .. name) end
    a.packed = 0
    waiting_lists_recount(a)
    redis.call('ZREM', packing, name)
  end
  return math.max(#ids, 1)
end

local function storage_retire(max)
  local went = pack()
  local page = redis.call('HSCAN', accounts, counters_cursor('looked'), 'COUNT', 50)
  redis.call('HSET', stat, 'looked', page[1])
  for i = 1, #page[2], 2 do -- clients that were kept because they owed a turn
    local name = page[2][i]
    local readable, a = true, accounts_known[name]
    if not a then readable, a = pcall(accounts_parse, name, page[2][i + 1]) end
    if readable and client_ring_forgettable(a) then accounts_touched[name], went = a, went + 1 end
  end
  client_ring_write()
  return went + results_retire(max)
end
