-- Pause a queue, or let it go on, as BullMQ's own script `pause` of the queue's release does it.
-- Release 5 renames the list of waiting jobs; release 6 only marks the queue, and takes a list back
-- that release 5 renamed. `base`: what the queue's keys begin with. `paused`: 1 | 0.
-- KEYS: op_
-- ARGV: caller seq base paused
-- USES: idempotency history audit_log type_check events
-- ENTRIES: op_{caller}=hash
-- FLAGS: allow-oom
-- Returns: ok | same | unclear (the release is unknown, or both lists have jobs: one would be lost).
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply[1] end
local meta, marker, wait, parked = base .. 'meta', base .. 'marker', base .. 'wait', base .. 'paused'
for key, kind in pairs({[meta] = 'hash', [marker] = 'zset', [wait] = 'list', [parked] = 'list',
  [base .. 'prioritized'] = 'zset', [base .. 'delayed'] = 'zset', [base .. 'events'] = 'stream'}) do
  type_check_key(key, kind)
end
local was, version = unpack(redis.call('HMGET', meta, 'paused', 'version'))
local release = tonumber((version or ''):match('bullmq[^:]*:(%d+)') or nil)
local word = 'ok'
local from, to = wait, parked
if paused == '0' then from, to = parked, wait end
local moves = release and (release < 6 or paused == '0') and redis.call('EXISTS', from) == 1
if (was and '1' or '0') == paused then
  word = 'same'
elseif not release or moves and redis.call('EXISTS', to) == 1 then
  word = 'unclear'
end
if word == 'ok' then
  if moves then redis.call('RENAME', from, to) end
  if paused == '1' then
    redis.call('HSET', meta, 'paused', 1)
    redis.call('DEL', marker)
  else
    redis.call('HDEL', meta, 'paused')
    local first = redis.call('ZRANGE', base .. 'delayed', 0, 0, 'WITHSCORES')
    if redis.call('LLEN', wait) + redis.call('ZCARD', base .. 'prioritized') > 0 then
      redis.call('ZADD', marker, 0, '0')
    elseif first[2] then
      redis.call('ZADD', marker, first[2] / 4096, '1')
    end
  end
  events_add(base, paused == '1' and 'paused' or 'resumed')
  history_by = caller
  history_note('op', caller .. '|' .. (paused == '1' and 'pause' or 'resume'))
  history_write()
end
if word ~= 'unclear' then idempotency_remember({word}) end
return word
