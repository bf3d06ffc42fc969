-- Handle a little of what is past its time: leases, due jobs of the owner's sets, purged entries after
-- `trash_ms`, counts of lost workers after `keep_ms` (others may have ended the job), old bookkeeping.
-- The owner's own keys are the owner's to trim.
-- KEYS: lost stat callers
-- ARGV: max queue
-- REPLACES: sweep
-- USES: trash expire_bookkeeping clock config counters history job_lists leased_jobs jobs_promote
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
fit_lists()
local went = reap(tonumber(max)) + jobs_promote(math.min(tonumber(max), 100))
went = went + empty_trash(max)
counters_write()
history_write()
local counted = redis.call('HSCAN', lost, counters_cursor('sweep_lost'), 'COUNT', 50)
redis.call('HSET', stat, 'sweep_lost', counted[1])
for i = 1, #counted[2], 2 do
  if (tonumber(counted[2][i + 1]:match('%d+$')) or 0) < now - config.keep_ms then
    redis.call('HDEL', lost, counted[2][i])
  end
end
redis.call('HSET', callers, CLOCK_FIELD, clock_word())
expire_bookkeeping()
return went
