-- What is past its time, a little per call: leases, due entries of the owner's sets, purged entries
-- after `trash_ms`, what was counted of jobs that others have ended since after `keep_ms`, callers not
-- heard of for a day. What the owner keeps is the owner's to trim.
-- ARGV: max side queue failed
-- USES: leased_jobs promote trash expire_bookkeeping
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
fit_lists()
local went = reap(tonumber(max)) + promote(math.min(tonumber(max), 100))
went = went + empty_trash(max)
write_counters()
write_history()
local counted = redis.call('HSCAN', lost, cursor_of('sweep_lost'), 'COUNT', 50)
redis.call('HSET', stat, 'sweep_lost', counted[1])
for i = 1, #counted[2], 2 do
  if (tonumber(counted[2][i + 1]:match('%d+$')) or 0) < now - conf.keep_ms then
    redis.call('HDEL', lost, counted[2][i])
  end
end
redis.call('HSET', callers, CLOCK, clock_word())
forget_unheard()
return went
