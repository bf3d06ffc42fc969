-- Give pending entries of a consumer back to their group, by identity: nobody has them, and whoever
-- claims such entries gets them. XNACK is of Redis 8.8; with FAIL the number of deliveries stays.
-- KEYS: stream journal
-- ARGV: group consumer min_idle seq
-- REST: id
-- USES: held
-- FLAGS: allow-oom
-- Returns one word per id, as `held_settle`.
return held_settle(journal, function(id) redis.call('XNACK', stream, group, 'FAIL', 'IDS', 1, id) end)
