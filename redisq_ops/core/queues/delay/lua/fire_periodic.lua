-- Schedule the next runs of a periodic entry, unless another scheduler has: `at` must still be its next
-- time, and `spec` its specification. Without overlap, a run that isn't over delays the next one.
-- KEYS: periodic periodic_at periodic_run lease delay body
-- ARGV: name spec at following overlap
-- REST: id ready
-- USES: transitions config history wake_workers
-- Returns: fired | held | passed (another scheduler did it, or the entry was changed).
if redis.call('HGET', periodic, name) ~= spec
  or tonumber(redis.call('ZSCORE', periodic_at, name)) ~= tonumber(at) then return 'passed' end
local last = overlap == '0' and redis.call('HGET', periodic_run, name)
if config.closed
  or last and (redis.call('ZSCORE', lease, last) or redis.call('ZSCORE', delay, last)) then
  return 'held'
end
history_by = 'periodic'
local payload, fresh = spec:match('^[^\n]*\n(.*)$'), 0
for i = first, #ARGV, width do
  local id, ready = ARGV[i], ARGV[i + 1]
  if redis.call('HSETNX', body, id, payload) == 1 then
    redis.call('ZADD', delay, ready, id)
    redis.call('HSET', periodic_run, name, id)
    if history_all then history_note('submitted', id .. '|' .. ready) end
    fresh = fresh + 1
  end
end
redis.call('ZADD', periodic_at, following, name)
history_tally('i', fresh)
if fresh > 0 then wake_workers(1) end
transitions_flush()
return 'fired'
