-- The queue's rate (setting `rate`: N entries per second, minute or hour). Entries are handed out
-- evenly: a pause earns what a tenth of a second brings, at least one entry. So in any second (minute,
-- hour) at most N entries and that many more are handed out. Shards have equal parts of the rate.
-- `rate_at` in stat is the time (µs) by which all that were handed out are earned.
-- KEYS: stat
-- USES: config wake_workers
local SPAN = {s = 1e6, m = 6e7, h = 3.6e9} -- µs
local each, burst, earned, left, shards -- `each`: µs per entry; `left`: how many may be taken now

-- How many entries may be handed out now at one per `span` µs, `most` of them after a pause, when the
-- earlier ones are earned by `til` (µs); and that time, if it has to be another one.
local function take_rate_left(span, most, til)
  local at = now * 1000
  -- mutant a pause earns all that it lasted: math.max(at, til) => til
  til = math.max(at, til)
  if til > at + (most + 1) * span then til = at + most * span end -- or the clock fell back
  return math.max(0, most - math.ceil((til - at) / span)), til
end

-- When the next of them may be handed out (ms).
local function take_rate_free(span, most, til)
  return math.max(now + 1, math.ceil((til - (most - 1) * span) / 1000))
end

-- How many of `most` entries may be handed out now.
local function take_rate_allows(most)
  if config.rate == DEFAULT.rate then return most end
  local number, unit = config.rate:match('^([1-9]%d*)%%2F([smh])$')
  if not number then return most end
  local present, former = (config.registered or ''):match('^%S+ %d+ %d+ (%d+) (%d+) ')
  shards = math.max(tonumber(present) or 1, tonumber(former) or 1)
  -- mutant all minutes are seconds: SPAN[unit] => 1e6
  each = SPAN[unit] * shards / number
  -- mutant a pause earns too much: 1e5 => 1e6
  burst = math.max(1, math.floor(1e5 * number / SPAN[unit] / shards))
  local til = tonumber(redis.call('HGET', stat, 'rate_at')) or 0
  left, earned = take_rate_left(each, burst, til)
  if til > earned then redis.call('HSET', stat, 'rate_at', string.format('%.0f', earned)) end
  -- mutant a rate that nobody keeps to: math.min(most, left) => most
  return math.min(most, left)
end

-- Count `n` entries that are handed out.
local function take_rate_count(n)
  if not each then return end
  left, earned = left - n, math.ceil(earned + n * each)
  -- mutant what was taken isn't counted
  redis.call('HSET', stat, 'rate_at', string.format('%.0f', earned))
end

-- When the next entry may be handed out (ms); nil if the rate doesn't stop it now.
local function take_rate_next()
  if not each or left > 0 then return nil end
  return take_rate_free(each, burst, earned)
end

-- Whether the rate lets no more be taken now, after a take that left some (`more`). Then another worker
-- is woken: it keeps watch if this one has enough to do. Shards can't see whether others have more.
local function take_rate_stops(more)
  if not each or left > 0 then return false end
  if more or shards > 1 then
    redis.call('HSET', stat, 'watch_until', '0')
    wake_workers(1)
  end
  return true
end
