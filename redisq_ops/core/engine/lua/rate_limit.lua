-- A place in a line that moves at a set rate, shared by all who ask under one name: how many
-- processes they are doesn't change how fast they are together. A token bucket, kept as the moment
-- (microseconds) when all that was promised so far will have had its time.
-- A place that is taken and not used (its process died, or the call was sent twice) makes the line
-- slower, never faster.
-- `rate`: entries per second; `burst`: how many may go at once after a rest; `n`: at most `burst`.
-- KEYS: bucket_
-- ARGV: name n rate burst
-- Returns how long (ms) to wait before these `n`.
local key, at, each = bucket_ .. name, now * 1000, 1000000 / tonumber(rate)
local free = math.max(at, tonumber(redis.call('GET', key) or '0')) + tonumber(n) * each
redis.call('SET', key, string.format('%.0f', free), 'PX',
  string.format('%.0f', math.ceil((free - at) / 1000) + 60000)) -- nobody has to clear it away
return math.ceil(math.max(0, free - tonumber(burst) * each - at) / 1000)
