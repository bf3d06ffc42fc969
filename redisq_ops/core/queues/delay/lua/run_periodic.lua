-- One step of an operation: run a periodic entry once, now, if its definition still has the SHA-1
-- `was`. The run is an entry `id` like those of its schedule, which stays as it is. Without overlap,
-- none begins while the run before waits, runs or will be retried.
-- KEYS: periodic periodic_run lease delay body
-- ARGV: caller seq name was id overlap
-- USES: idempotency transitions config history wake_workers
-- Returns a word, and the id of the run before: ok | held (by that run) | changed (another definition).
local reply = idempotency_replayed()
if reply then return {reply[1], reply[2] or ''} end
local spec, last = redis.call('HGET', periodic, name), redis.call('HGET', periodic_run, name) or ''
local word = 'ok'
if not spec or redis.sha1hex(spec) ~= was then
  word = 'changed'
elseif config.closed then
  return {err = 'CLOSED the queue is draining and takes no new entries'}
elseif overlap == '0' and last ~= ''
  and (redis.call('ZSCORE', lease, last) or redis.call('ZSCORE', delay, last)) then
  word = 'held'
end
transitions_check()
if word == 'ok' then
  history_by = caller
  if redis.call('HSETNX', body, id, spec:match('^[^\n]*\n(.*)$') or '') == 1 then
    redis.call('ZADD', delay, now, id)
    redis.call('HSET', periodic_run, name, id)
    history_note('op', table.concat({caller, 'periodic-run', id}, '|'))
    if history_all then history_note('submitted', id .. '|' .. now) end
    history_tally('i', 1)
    wake_workers(1)
  end
  transitions_flush()
end
idempotency_remember({word, last})
return {word, last}
