-- Write the entry of an operation in the audit log before its first step (`started`: ms), or add fields
-- to it: who, why, and what undoes it. It is a script because a full server refuses a plain HSET, and
-- purging, which such a server needs, starts here.
-- KEYS: op_ ops
-- ARGV: op started
-- REST: name value
-- USES: config registered
-- ENTRIES: op_{op}=hash
-- FLAGS: allow-oom
-- Returns 1; 0: the queue is gone, and the entry with it.
if started ~= '' then
  registered_check()
elseif not config.registered and redis.call('EXISTS', op_ .. op) == 0 then
  return 0
end
redis.call('HSET', op_ .. op, unpack(ARGV, first))
if started ~= '' then
  redis.call('ZADD', ops, started, op)
  redis.call('PEXPIRE', op_ .. op, 2592000000)
end
return 1
