-- Let go of what is past its time, a little per call: purged entries after `trash_ms`, finished
-- requests and results after `keep_ms`, callers not heard of for a day. Dead letters never.
-- ARGV: max
-- USES: due unheard
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
local went = reap(tonumber(max))
flush()
local old = redis.call('ZRANGE', trash, '-inf', now - conf.trash_ms, 'BYSCORE', 'LIMIT', 0, max)
for i, r in ipairs(records(old)) do move(old[i], 'trash', 'gone', 0, r) end
flush()
went = went + #old + room_retire(tonumber(max))
flush()
redis.call('HSET', callers, CLOCK, clock_word())
forget_unheard()
return went
