-- Acknowledge pending entries of a consumer, by identity: their group is done with them, and they stay
-- in the stream for other groups.
-- KEYS: stream journal
-- ARGV: group consumer min_idle seq
-- REST: id
-- USES: held
-- FLAGS: allow-oom
-- Returns one word per id, as `held_settle`.
return held_settle(journal, function(id) redis.call('XACK', stream, group, id) end)
