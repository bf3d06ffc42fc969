-- Pause a queue, or let it go on, as Bull's own script `pause` does it. `base`: what the queue's keys
-- begin with. `paused`: 1 | 0.
-- REPLACES: pause_queue
-- KEYS: op_
-- ARGV: caller seq base paused
-- USES: idempotency history audit_log type_check events
-- ENTRIES: op_{caller}=hash
-- FLAGS: allow-oom
-- Returns: ok | same | unclear (both lists have jobs: one would be lost).
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply[1] end
local mark, meta, from, to = base .. 'meta-paused', base .. 'meta', base .. 'wait', base .. 'paused'
for key, kind in pairs({[mark] = 'string', [meta] = 'hash', [from] = 'list', [to] = 'list'}) do
  type_check_key(key, kind)
end
local word, event = 'ok', 'paused'
if paused == '0' then from, to, event = to, from, 'resumed' end
local moves = redis.call('EXISTS', from) == 1
if redis.call('EXISTS', mark) == tonumber(paused) then
  word = 'same'
elseif moves and redis.call('EXISTS', to) == 1 then
  word = 'unclear'
end
if word == 'ok' then
  if moves then redis.call('RENAME', from, to) end
  if paused == '1' then
    redis.call('SET', mark, 1)
    redis.call('HSET', meta, 'paused', 1)
  else
    redis.call('UNLINK', mark)
    redis.call('HDEL', meta, 'paused')
  end
  history_by = caller
  history_note('op', caller .. '|' .. (paused == '1' and 'pause' or 'resume'))
  history_write()
  events_add(base, event)
end
if word ~= 'unclear' then idempotency_remember({word}) end
return word
