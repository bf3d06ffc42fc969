-- Packing: what lists hold that nobody waits for any more.
-- USES: waiting_lists client_ring
-- Pack 500 ids of one list: spent holes go, all else keeps its order. How many were looked at.
local function pack()
  local name = redis.call('ZRANGE', packing, 0, 0)[1]
  if not name then return 0 end
  local readable, a = pcall(account, name)
  if not readable or unfit(name) then
    redis.call('ZADD', packing, now, name) -- behind the others
    return 0
  end
  -- The list's own length is what counts: were the counts off, ids behind them would be lost.
  local rest = redis.call('LLEN', c_ .. name)
  local most = math.min(rest, 500)
  local ids = most > 0 and redis.call('LPOP', c_ .. name, most) or {}
  if #ids > 0 then
    local names, marks = marked(a, ids)
    local kept = {}
    for i, id in ipairs(ids) do
      if marks[i] ~= '1' then
        kept[#kept + 1] = id
        marks[i] = false
      end
    end
    a.head = a.head + fill(a, names, marks)
    if #kept > 0 then redis.call('RPUSH', f_ .. name, unpack(kept)) end
    a.packed = a.packed + #kept
  end
  if most == rest then -- c_ is empty and gone: nothing is overwritten
    if redis.call('EXISTS', f_ .. name) == 1 then redis.call('RENAME', f_ .. name, c_ .. name) end
    a.packed = 0
    heed(a)
    redis.call('ZREM', packing, name)
  end
  return math.max(#ids, 1)
end

local function room_retire()
  local went = pack()
  local page = redis.call('HSCAN', accounts, cursor_of('looked'), 'COUNT', 50)
  redis.call('HSET', stat, 'looked', page[1])
  for i = 1, #page[2], 2 do -- those that owed a turn when they were last seen
    local name = page[2][i]
    local readable, a = true, known[name]
    if not a then readable, a = pcall(opened, name, page[2][i + 1]) end
    if readable and forgettable(a) then touched[name], went = a, went + 1 end
  end
  write_accounts()
  return went
end
