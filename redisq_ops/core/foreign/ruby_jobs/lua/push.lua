-- Add new jobs as the owner's client does. `text` is a record; with `unit` s it has no closing brace,
-- and its times are added here. `at`: the time (ms) from which it is due, or +ms from now; empty: now.
-- KEYS: t_schedule t_queue_ t_queues
-- ARGV: caller seq at unit queue
-- REST: id text
-- USES: idempotency config counters history wake_workers job_counters job_lists type_check
-- USES: jobs_append max_waiting registered
-- TYPES: once
-- Returns the word ok, for all jobs.
registered_check()
local reply = idempotency_replayed()
if reply then return reply end
if config.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
local rows = (#ARGV - first + 1) / width
if config.max_waiting > 0 then
  local full = max_waiting_refusal(redis.call('LLEN', t_queue_ .. queue), rows)
  if full then return full end
end
history_by = caller:match('^[^:]*')
local texts, ready, came = {}, nil, ''
if at ~= '' then ready = at:sub(1, 1) == '+' and now + tonumber(at:sub(2)) or tonumber(at) end
if ready then
  type_check_key(t_schedule, 'zset')
else
  type_check_key(t_queues, 'set')
  type_check_key(t_queue_ .. queue, 'list')
end
if unit ~= '' then
  came = ',"created_at":' .. stamp(unit)
  if not ready then came = came .. ',"enqueued_at":' .. stamp(unit) end
  came = came .. '}'
end
for k = 1, rows do
  local i = first + (k - 1) * width
  texts[k] = ARGV[i + 1] .. came
  if history_all then history_note('submitted', ARGV[i]) end
end
if ready then
  for _, text in ipairs(texts) do into_set(t_schedule, seconds(ready), text) end
else
  jobs_append(queue, unpack(texts))
  wake_workers(#texts)
end
counters_write()
history_write()
return idempotency_remember({'ok'})
