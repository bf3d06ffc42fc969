-- Replace a field of a hash, if it still has the value that the caller saw. No value is ''.
-- Returns 1 if it has the new value now, also when the call is sent again.
local key, field, before, after = KEYS[1], unpack(ARGV)
local have = redis.call('HGET', key, field) or ''
if have == after then return 1 end
if have ~= before then return 0 end
if after == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, after) end
return 1
