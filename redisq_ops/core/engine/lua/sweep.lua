-- Remove what has expired, a little per call: purged entries after `trash_ms`, what the kind keeps for
-- `keep_ms`, callers that were silent for a day. Dead letters stay, and so do entries that an
-- unfinished move holds: these are looked at again in an hour.
-- KEYS: trash unfinished callers
-- ARGV: max
-- USES: reclaim_expired expire_bookkeeping unfinished_operations clock config record storage_retire
-- USES: transitions write_buffer
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns how many things were removed or taken back, 0 if nothing was due; then the ids found dead.
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
return {went, unpack(reclaim_expired_dead)}
