-- Put new jobs in as the owner's client does. `text` is a record without its closing brace when the
-- server is to say when it came (`unit`: s), else the whole. `at`: not before that time (ms), or +ms.
-- ARGV: caller seq at unit side queue failed
-- REST: id text
-- KEYS: t_schedule
-- USES: idempotency config counters history wake_workers owner_counters
-- Returns the word ok, for all of them.
local said, late = replayed()
if late then return superseded end
if said then return said end
if conf.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
local rows = (#ARGV - first + 1) / width
if conf.max_waiting > 0 then
  local waiting = redis.call('LLEN', t_queue_ .. queue)
  if waiting + rows > conf.max_waiting then
    return {err = 'FULL ' .. waiting .. ' entries wait and max_waiting is ' .. conf.max_waiting}
  end
end
by = caller:match('^[^:]*')
local texts, ready, came = {}, nil, ''
if at ~= '' then ready = at:sub(1, 1) == '+' and now + tonumber(at:sub(2)) or tonumber(at) end
if ready then
  must_be(t_schedule, 'zset')
else
  must_be(t_queues, 'set')
  must_be(t_queue_ .. queue, 'list')
end
if unit ~= '' then
  came = ',"created_at":' .. stamp(unit)
  if not ready then came = came .. ',"enqueued_at":' .. stamp(unit) end
  came = came .. '}'
end
for k = 1, rows do
  local i = first + (k - 1) * width
  texts[k] = ARGV[i + 1] .. came
  if every then note('submitted', ARGV[i]) end
end
if ready then
  for _, text in ipairs(texts) do into_set(t_schedule, seconds(ready), text) end
else
  redis.call('SADD', t_queues, queue)
  redis.call(sidekiq and 'LPUSH' or 'RPUSH', t_queue_ .. queue, unpack(texts))
  wake_workers(#texts)
end
write_counters()
write_history()
return remember({'ok'})
