-- Accounts of clients: one line each, `waiting pending head vt`, and unless these have their default
-- values `holes spent packed weight cap blocked`, and of a client with a rate `rate earned rest`
-- (client_rates.lua). Accounts that were parsed stay in `accounts_known`
-- until the script ends; those in `accounts_touched` are written by `client_ring_write`.
-- KEYS: accounts
-- USES: counters corrupt_values
local accounts_known, accounts_touched = {}, {}
local accounts_lessened = {} -- lines that `deliveries_write` writes first, by name
local vt_now, vt_latest

-- The present virtual time, and the latest one that a client was moved on to.
local function accounts_virtual_time()
  if not vt_now then
    if counters_known.vt == nil then
      counters_add('vt', 0)
      counters_add('vt_latest', 0)
    end
    vt_now, vt_latest = counters_known.vt or 0, counters_known.vt_latest or 0
  end
  return vt_now, vt_latest
end

local match = string.match

-- Numbers as text, each converted once: that is what costs most in an account, and clients that are
-- served in turn have much the same numbers.
local accounts_text = setmetatable({}, {__index = function(map, n)
  local made = string.format('%.0f', n)
  map[n] = made
  return made
end})

local function accounts_servable(a)
  -- mutant a cap in the ring: a.pending < a.cap => true
  -- mutant blocked ones served: a.blocked == 0 and =>
  -- mutant resting ones served: a.rest == 0 and =>
  return a.waiting > 0 and a.blocked == 0 and a.rest == 0 and (a.cap == 0 or a.pending < a.cap)
end

local usual = {__index = {holes = 0, spent = 0, packed = 0, weight = 1, cap = 0, blocked = 0, rate = 0,
  earned = 0, rest = 0, rested = 0}}

local function accounts_parse(name, line)
  -- Every field at once: Lua copies a table that grows.
  local a = setmetatable({name = name, waiting = 0, pending = 0, head = 0, vt = 0, new = not line,
    was = false, before = 0, at = 0, want = 0, cost = 0, most = 0, given = 0, ids = false,
    astray = false}, usual)
  if line then
    local waiting, pending, head, vt, rest = match(line, '^(%d+) (%d+) (%-?%d+) (%d+) ?(.*)$')
    if not waiting then corrupt_values_fail(accounts, name, "a client's account") end
    a.waiting, a.pending, a.head, a.vt = waiting + 0, pending + 0, head + 0, vt + 0
    if rest ~= '' then
      local holed, spent, packed, weight, cap, blocked, more = match(rest,
        '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ?(.*)$')
      if not holed then corrupt_values_fail(accounts, name, "a client's account") end
      a.holes, a.spent, a.packed = holed + 0, spent + 0, packed + 0
      a.weight, a.cap, a.blocked = weight + 0, cap + 0, blocked + 0
      if more ~= '' then
        local rate, earned, til = match(more, '^([1-9]%d*) (%d+) (%d+)$')
        if not rate then corrupt_values_fail(accounts, name, "a client's account") end
        a.rate, a.earned, a.rest, a.rested = rate + 0, earned + 0, til + 0, til + 0
      end
    end
  end
  a.was, a.before, a.at = accounts_servable(a), a.waiting, a.vt
  accounts_known[name] = a
  return a
end

local function accounts_line(a)
  local line = accounts_text[a.waiting] .. ' ' .. accounts_text[a.pending] .. ' '
    .. accounts_text[a.head] .. ' ' .. accounts_text[a.vt]
  if a.holes + a.packed + a.cap + a.blocked + a.rate == 0 and a.weight == 1 then return line end
  line = table.concat({line, a.holes, a.spent, a.packed, a.weight, a.cap, a.blocked}, ' ')
  if a.rate == 0 then return line end
  return string.format('%s %.0f %.0f %.0f', line, a.rate, a.earned, a.rest)
end

-- A client's account, which the flush will write.
local function accounts_change(name)
  local a = accounts_known[name]
    or accounts_parse(name, accounts_lessened[name] or redis.call('HGET', accounts, name))
  accounts_touched[name] = a
  return a
end

-- Read the accounts of several clients in one command.
local function accounts_load(names)
  local unknown, listed = {}, {}
  for i = 1, #names do
    local name = names[i]
    if name and not accounts_known[name] and not listed[name] then
      unknown[#unknown + 1], listed[name] = name, true
    end
  end
  if #unknown == 0 then return end
  local lines = redis.call('HMGET', accounts, unpack(unknown))
  for i, name in ipairs(unknown) do accounts_parse(name, accounts_lessened[name] or lines[i]) end
end
