-- Let go of what is past its time, a little per call: purged entries after `trash_ms`, finished
-- requests and results after `keep_ms`, callers not heard of for a day. Dead letters never, nor what an
-- unfinished move holds: that is looked at again in an hour.
-- ARGV: max
-- USES: reclaim_expired expire_bookkeeping unfinished_operations
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
local went = reap(tonumber(max))
local old = redis.call('ZRANGE', trash, '-inf', now - conf.trash_ms, 'BYSCORE', 'LIMIT', 0, max)
for i, r in ipairs(records(old)) do
  if is_held(r.op) then
    admit(trash, math.min(now, now - conf.trash_ms + 3600000), old[i])
  else
    move(old[i], 'trash', 'gone', 0, r)
    went = went + 1
  end
end
flush()
went = went + room_retire(tonumber(max), redis.call('EXISTS', unfinished) == 1)
flush()
redis.call('HSET', callers, CLOCK, clock_word())
forget_unheard()
return went
