-- Write the registration mark, which `registered` checks, into a shard that has none. This is a script,
-- because a full server refuses a plain HSETNX.
-- KEYS: cfg
-- ARGV: mark
-- FLAGS: allow-oom
-- Returns 1.
redis.call('HSETNX', cfg, 'registered', mark)
return 1
