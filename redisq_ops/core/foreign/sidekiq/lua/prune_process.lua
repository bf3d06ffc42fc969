-- Remove a process from Sidekiq's registry if it was silent for `silent_ms` by the server's clock: each
-- heartbeat renews its record for a minute. Rows: its record, the two hashes that may have its running
-- jobs, its signals.
-- KEYS: t_processes op_ t_queue_
-- ARGV: caller seq identity silent_ms rescue queue
-- REST: key
-- USES: idempotency job_records history job_lists jobs_prepend
-- ENTRIES: op_{caller}=hash
-- FLAGS: allow-oom
-- Returns pruned | alive | unknown, how many of its jobs wait again and how many are lost; or
-- blocked, and the key of another type to which a job would have to go: then nothing was changed.
local reply = idempotency_replayed()
if reply then return reply end
history_by = caller:match('^[^:]*')
if redis.call('SISMEMBER', t_processes, identity) == 0 then return idempotency_remember({'unknown'}) end
-- Without a record (-2) Sidekiq takes it for dead, whenever it expired; a record without an expiry time
-- (-1) shows no heartbeat.
local left = redis.call('PTTL', ARGV[first])
local silent = left == -2 and math.huge or left >= 0 and 60000 - left or 0
if silent < tonumber(silent_ms) then return idempotency_remember({'alive'}) end
local back, gone = {}, 0
for i = first + 1, first + 2 do
  for _, work in ipairs(redis.call('HVALS', ARGV[i])) do -- one per thread
    local job = rescue == '1' and read_record(work)
    if job and type(job.payload) == 'string' and type(job.queue) == 'string' and job.queue ~= ''
    then
      if not can_wait(job.queue) then return {'blocked', t_queue_ .. job.queue} end
      back[#back + 1] = job
    else
      gone = gone + 1
    end
  end
end
for _, job in ipairs(back) do jobs_prepend(job.queue, job.payload) end
redis.call('SREM', t_processes, identity)
redis.call('UNLINK', unpack(ARGV, first))
if redis.call('EXISTS', op_ .. caller) == 1 then redis.call('HINCRBY', op_ .. caller, 'done', 1) end
history_note('op', table.concat({history_by, 'prune', #back}, '|'))
history_write()
return idempotency_remember({'pruned', tostring(#back), tostring(gone)})
