-- Updates after accounts changed: which clients are in the ring, which are known, and whose list is to
-- be packed.
-- KEYS: packing ring clients accounts resting stat
-- USES: accounts wake_workers bulk_write counters

-- Whether the account is what an unknown client would have, and owes no turn.
local function client_ring_forgettable(a)
  -- mutant a weight goes with the last entry: a.weight == 1 and =>
  -- mutant a cap goes with the last entry: cap + a.blocked => blocked
  -- mutant a block goes with the last entry: cap + a.blocked => cap
  -- mutant a rate goes with the last entry: + a.rate =>
  return a.waiting + a.pending + a.holes == 0 and a.weight == 1 and a.cap + a.blocked + a.rate == 0
    -- mutant a debt forgotten
    and a.vt <= accounts_virtual_time()
end

-- Whether a change of the account changes nothing beside its line.
local function client_ring_keeps(a)
  return a.was and accounts_servable(a) and a.vt == a.at and not a.new and a.spent == 0
end

-- Write which clients rest.
local function rest(resting_now, rising)
  if #resting_now > 0 then redis.call('ZADD', resting, unpack(resting_now)) end
  -- mutant who came back rests again: redis.call('ZREM', resting, unpack(rising)) =>
  if #rising > 0 then redis.call('ZREM', resting, unpack(rising)) end
  counters_known.resting = redis.call('ZCARD', resting)
  redis.call('HSET', stat, 'resting', counters_known.resting)
end

local function client_ring_write()
  local laid, rising = {}, {}
  local lines, names, forgotten, into, out, awake, more = {}, {}, {}, {}, {}, 0, 0
  for name, a in pairs(accounts_touched) do
    local is, n = accounts_servable(a), #lines
    more = more + a.waiting - a.before
    -- mutant history counts for a newcomer: math.max(a.vt, (accounts_virtual_time())) => a.vt
    if is and not a.was then a.vt = math.max(a.vt, (accounts_virtual_time())) end
    if is and (not a.was or a.vt ~= a.at) then
      into[#into + 1], into[#into + 2] = accounts_text[a.vt], name
    elseif a.was and not is then
      out[#out + 1] = name
    end
    if a.rest ~= a.rested then
      if a.rest > 0 then
        laid[#laid + 1], laid[#laid + 2] = a.rest, name
      else
        rising[#rising + 1] = name
      end
      a.rested = a.rest
    end
    if is and (a.waiting > a.before or not a.was) and not a.woken then
      local most = a.cap > 0 and a.cap - a.pending or a.waiting
      awake = awake + math.max(0, a.was and a.waiting - a.before or math.min(a.waiting, most))
    end
    if client_ring_forgettable(a) then
      forgotten[#forgotten + 1] = name
      a.new = true
    else
      if a.new then names[#names + 1], names[#names + 2] = 0, name end
      lines[n + 1], lines[n + 2] = name, accounts_line(a)
      a.new = false
    end
    if a.spent * 10 > a.waiting + a.holes then redis.call('ZADD', packing, 'NX', now, name) end
    a.was, a.before, a.at = is, a.waiting, a.vt
  end
  accounts_touched = {}
  counters_add('waiting', more)
  if #into > 0 then bulk_write_scores(ring, into) end
  if #out > 0 then redis.call('ZREM', ring, unpack(out)) end
  if #names > 0 then redis.call('ZADD', clients, unpack(names)) end
  if #lines > 0 then bulk_write_fields(accounts, lines) end
  if #forgotten > 0 then
    redis.call('ZREM', clients, unpack(forgotten))
    redis.call('HDEL', accounts, unpack(forgotten))
  end
  if #laid + #rising > 0 then rest(laid, rising) end
  if awake > 0 then wake_workers(awake) end
end
