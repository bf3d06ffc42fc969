-- Remove one of Resque's workers from the registry if its heartbeat and its work are still as they were
-- read. Its job becomes a failure, as Resque itself does with a worker that was silent for five minutes;
-- with `job`, the job's bytes, it goes back to the front of `source`, the queue it was taken from.
-- KEYS: t_workers t_worker_ t_heartbeats op_ t_queue_ t_stat_
-- ARGV: caller seq identity beat working text job source queue
-- USES: idempotency history job_counters job_lists jobs_prepend jobs_bury jobs
-- ENTRIES: op_{caller}=hash
-- FLAGS: allow-oom
-- Returns pruned | changed | unknown, how many jobs wait again and how many are failures; or
-- blocked, and the key of another type to which a job would have to go: then nothing was changed.
local reply = idempotency_replayed()
if reply then return reply end
history_by = caller:match('^[^:]*')
if redis.call('SISMEMBER', t_workers, identity) == 0 then return idempotency_remember({'unknown'}) end
local has = redis.call('GET', t_worker_ .. identity) or ''
if (redis.call('HGET', t_heartbeats, identity) or '') ~= beat or has ~= working then
  return idempotency_remember({'changed'})
end
local list = failures_of(source)
local kind = redis.call('TYPE', list).ok
if job ~= '' and not can_wait(source) then return {'blocked', t_queue_ .. source} end
if job == '' and text ~= '' and kind ~= 'list' and kind ~= 'none' then return {'blocked', list} end
redis.call('SREM', t_workers, identity)
redis.call('UNLINK', t_worker_ .. identity, t_worker_ .. identity .. ':started',
  t_stat_ .. 'processed:' .. identity, t_stat_ .. 'failed:' .. identity)
redis.call('HDEL', t_heartbeats, identity)
local back, dead = 0, 0
if job ~= '' then
  jobs_prepend(source, job)
  back = 1
elseif text ~= '' then
  jobs_bury(source, text .. stamp('date') .. '}')
  history_note('dead', history_by .. '|pruned')
  dead = 1
end
if redis.call('EXISTS', op_ .. caller) == 1 then redis.call('HINCRBY', op_ .. caller, 'done', 1) end
history_note('op', history_by .. '|prune|1')
history_write()
return idempotency_remember({'pruned', tostring(back), tostring(dead)})
