-- A token bucket shared by every process that asks under one name. It is stored as the time
-- (microseconds) when all tokens that were given out so far will have been earned. Tokens that aren't
-- used (the process died, or the call was sent twice) make the caller slower, never faster.
-- `rate`: entries per second; `burst`: how many may go at once after a pause; `n`: at most `burst`.
-- KEYS: bucket_
-- ARGV: name n rate burst
-- Returns how long (ms) to wait before these `n` entries.
local key, at, each = bucket_ .. name, now * 1000, 1000000 / tonumber(rate)
local free = math.max(at, tonumber(redis.call('GET', key) or '0')) + tonumber(n) * each
redis.call('SET', key, string.format('%.0f', free), 'PX',
  string.format('%.0f', math.ceil((free - at) / 1000) + 60000)) -- it expires by itself
return math.ceil(math.max(0, free - tonumber(burst) * each - at) / 1000)
