-- Leave the mark of a registration, which `registered` asks for, in a shard that has none. It is a
-- script because a full server refuses a plain HSETNX.
-- KEYS: cfg
-- ARGV: mark
-- FLAGS: allow-oom
-- Returns 1.
redis.call('HSETNX', cfg, 'registered', mark)
return 1
