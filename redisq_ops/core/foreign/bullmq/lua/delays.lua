-- Putting a job off.
-- USES: jobs events waiting
-- A score is the time (ms) * 4096 + n, so 4,096 jobs of one millisecond keep their order.
local function delays_until(e, at)
  local base, low, event = jobs_place(e).base, at * 4096, string.format('%.0f', at)
  local last = redis.call('ZREVRANGEBYSCORE', e.key, string.format('%.0f', low + 4095),
    string.format('%.0f', low), 'WITHSCORES', 'LIMIT', 0, 1)
  e.there = string.format('%.0f', last[2] and math.min(last[2] + 1, low + 4095) or low)
  redis.call('ZADD', e.key, e.there, e.member)
  redis.call('HSET', jobs_of(e).key, 'delay', string.format('%.0f', math.max(0, at - now)))
  events_add(base, 'delayed', 'jobId', e.member, 'delay', event)
  waiting_wake_for('delayed', base)
end
