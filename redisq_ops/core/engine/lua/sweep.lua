-- Let go of what is past its time, a little per call: purged entries after `trash_ms`, finished
-- requests and results after `keep_ms`, callers not heard of for a day. Dead letters never, nor what an
-- unfinished move holds: that is looked at again in an hour.
-- KEYS: trash unfinished callers
-- ARGV: max
-- USES: reclaim_expired expire_bookkeeping unfinished_operations clock config record storage_retire
-- USES: transitions write_buffer
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
local went = reclaim_expired(tonumber(max))
local old = redis.call('ZRANGE', trash, '-inf', now - config.trash_ms, 'BYSCORE', 'LIMIT', 0, max)
for i, r in ipairs(record_read(old)) do
  if unfinished_operations_hold(r.op) then
    write_buffer_add(trash, math.min(now, now - config.trash_ms + 3600000), old[i])
  else
    transitions_move(old[i], 'trash', 'gone', 0, r)
    went = went + 1
  end
end
transitions_flush()
went = went + storage_retire(tonumber(max), redis.call('EXISTS', unfinished) == 1)
transitions_flush()
redis.call('HSET', callers, CLOCK_FIELD, clock_word())
expire_bookkeeping()
return went
