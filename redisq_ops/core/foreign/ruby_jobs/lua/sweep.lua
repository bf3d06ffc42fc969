-- What is past its time, a little per call: leases, due entries of the owner's sets, purged entries
-- after `trash_ms`, what was counted of jobs that others have ended since after `keep_ms`, callers not
-- heard of for a day. What the owner keeps is the owner's to trim.
-- KEYS: lost stat callers
-- ARGV: max side queue failed
-- REPLACES: sweep
-- USES: promote trash expire_bookkeeping clock config counters history owner_lists leased_jobs
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
fit_lists()
local went = reap(tonumber(max)) + promote(math.min(tonumber(max), 100))
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
