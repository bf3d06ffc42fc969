-- Rates of clients, in entries per hour. A client at its rate rests: it is not in the ring but in
-- `resting`, by the time (ms) when a take brings it back. `resting` in stat is how many do, so that a
-- queue without such clients needs no command for them. In an account `earned` is the time (µs) by which
-- all of its entries that were handed out are earned, `rest` the time in `resting`, 0 if it isn't there.
-- KEYS: resting stat
-- USES: accounts counters take_rate wake_workers

local function client_rates_any() return (counters_known.resting or 0) > 0 end

-- Of a client's rate: µs per entry, and how many entries a pause earns.
local function pace(a) return 3.6e9 / a.rate, math.max(1, math.floor(a.rate / 36000)) end

-- How many entries a client's rate allows now.
local function client_rates_left(a)
  local span, most = pace(a)
  local left, earned = take_rate_left(span, most, a.earned)
  a.earned = earned
  return left
end

-- Let a client rest if it is at its rate, else not.
local function client_rates_rest(a)
  a.rest = 0
  if a.rate == 0 then
    a.earned = 0
  elseif client_rates_left(a) < 1 then
    local span, most = pace(a)
    a.rest = take_rate_free(span, most, a.earned)
  end
end

-- Count `n` entries that are handed out.
local function client_rates_count(a, n)
  -- mutant what a client got isn't counted: n * => 0 *
  a.earned = math.ceil(math.max(a.earned, now * 1000) + n * 3.6e9 / a.rate)
  client_rates_rest(a)
end

-- Bring back clients whose time has come, 16 at most; after the clock `fell`, 500 whatever their time.
-- Returns how many were looked at; the caller flushes.
local function client_rates_return(fell)
  if not client_rates_any() then return 0 end
  -- mutant who rests never comes back: or now_text => or '-inf'
  local names = redis.call('ZRANGE', resting, '-inf', fell and '+inf' or now_text, 'BYSCORE', 'LIMIT',
    '0', fell and '500' or '16')
  accounts_load(names)
  for _, name in ipairs(names) do
    local a = accounts_change(name)
    a.rested, a.woken = math.max(1, a.rested), true
    client_rates_rest(a)
  end
  return #names
end

-- When the first one comes back (ms); nil if none rests.
local function client_rates_next()
  if not client_rates_any() then return nil end
  return tonumber(redis.call('ZRANGE', resting, '0', '0', 'WITHSCORES')[2])
end

-- After a take that left nobody to serve but clients that rest: another worker keeps watch for them.
local function client_rates_pass_on()
  if not client_rates_any() then return end
  redis.call('HSET', stat, 'watch_until', '0')
  wake_workers(1)
end
