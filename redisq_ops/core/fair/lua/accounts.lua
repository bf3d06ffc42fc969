-- Accounts of clients: a line each, waiting pending head vt, and where these aren't the usual ones
-- also holes spent packed weight cap blocked. `opened` ones are kept until the script ends, `touched`
-- ones are written by `write_accounts`, and with them who can be served and who is known.
-- KEYS: accounts clients ring packing
-- USES: counters
local known, touched = {}, {}
local vt_now, vt_latest

-- The present virtual time, and the latest any client was moved on to.
local function virtual_time()
  if not vt_now then
    local got = redis.call('HMGET', stat, 'vt', 'vt_latest')
    vt_now, vt_latest = tonumber(got[1]) or 0, tonumber(got[2]) or 0
  end
  return vt_now, vt_latest
end

local match, format = string.match, string.format

local function servable(a)
  return a.waiting > 0 and a.blocked == 0 and (a.cap == 0 or a.pending < a.cap)
end

local function opened(name, line)
  local a
  if line then
    local waiting, pending, head, vt, rest = match(line, '^(%d+) (%d+) (%-?%d+) (%d+) ?(.*)$')
    a = {waiting = waiting + 0, pending = pending + 0, head = head + 0, vt = vt + 0, holes = 0,
      spent = 0, packed = 0, weight = 1, cap = 0, blocked = 0}
    if rest ~= '' then
      local holed, spent, packed, weight, cap, blocked = match(rest,
        '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
      a.holes, a.spent, a.packed = holed + 0, spent + 0, packed + 0
      a.weight, a.cap, a.blocked = weight + 0, cap + 0, blocked + 0
    end
  else
    a = {waiting = 0, pending = 0, head = 0, vt = 0, holes = 0, spent = 0, packed = 0, weight = 1,
      cap = 0, blocked = 0, new = true}
  end
  a.name, a.was, a.before, a.at = name, servable(a), a.waiting, a.vt
  known[name] = a
  return a
end

local function written(a)
  local line = format('%d %d %d %.0f', a.waiting, a.pending, a.head, a.vt)
  if a.holes + a.packed + a.cap + a.blocked == 0 and a.weight == 1 then return line end
  return table.concat({line, a.holes, a.spent, a.packed, a.weight, a.cap, a.blocked}, ' ')
end

-- A client's account, to be changed.
local function account(name)
  local a = known[name] or opened(name, redis.call('HGET', accounts, name))
  touched[name] = a
  return a
end

local function open_accounts(names)
  local unknown, listed = {}, {}
  for _, name in ipairs(names) do
    if name and not known[name] and not listed[name] then
      unknown[#unknown + 1], listed[name] = name, true
    end
  end
  if #unknown == 0 then return end
  local lines = redis.call('HMGET', accounts, unpack(unknown))
  for i, name in ipairs(unknown) do opened(name, lines[i]) end
end
