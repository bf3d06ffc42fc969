-- One step of an operation: add, change, pause, resume or remove a periodic entry, if its definition
-- still has the SHA-1 `was` ('': there is none) and, where it gets another next time, its latest run is
-- still `run`: a scheduler may have scheduled a run at that time just now. What it was goes to this
-- step's undo list.
-- `spec`: its new definition; '' removes it, '=' leaves it as it is. `paused`: 1 | 0 | '' (as it is).
-- `at`: its next time; '': as it is. A paused entry has no next time: its score in `periodic_at` is inf.
-- KEYS: periodic periodic_at periodic_run undo_ op_
-- ARGV: caller seq name was spec at run paused
-- USES: idempotency config history audit_log
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns: ok | same | changed (another definition, or latest run).
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply[1] end
local before = redis.call('HGET', periodic, name) or ''
local time = redis.call('ZSCORE', periodic_at, name)
if spec == '=' then spec = before end
local was_paused = time == 'inf'
local pause = paused == '1' or (paused == '' and was_paused)
local last, word = redis.call('HGET', periodic_run, name) or '', 'ok'
if was ~= (before ~= '' and redis.sha1hex(before) or '') or at ~= '' and last ~= run then
  word = 'changed'
elseif spec == '' and before == '' and not time then
  word = 'same'
elseif spec ~= '' and spec == before and time and pause == was_paused
  and (pause or at == '' or tonumber(at) == tonumber(time)) then
  word = 'same'
end
if word == 'ok' then
  local list = undo_ .. caller .. ':' .. seq
  local after = spec ~= '' and redis.sha1hex(spec) .. (pause and ' paused' or '') or ''
  redis.call('RPUSH', list, name, before, time or '', last, after)
  redis.call('PEXPIRE', list, config.trash_ms)
  redis.call('HSET', op_ .. caller, 'steps', seq)
  redis.call('PEXPIRE', op_ .. caller, 2592000000) -- even if nobody has written the operation down
  if spec == '' then
    redis.call('HDEL', periodic, name)
    redis.call('ZREM', periodic_at, name)
    redis.call('HDEL', periodic_run, name)
  else
    redis.call('HSET', periodic, name, spec)
    if pause then
      redis.call('ZADD', periodic_at, 'inf', name)
    elseif at ~= '' then
      redis.call('ZADD', periodic_at, at, name)
    end
  end
  history_by = caller
  local verb = spec == '' and 'rm' or ({['1'] = 'pause', ['0'] = 'resume'})[paused] or 'set'
  history_note('op', table.concat({caller, 'periodic-' .. verb, name}, '|'))
  history_write()
end
idempotency_remember({word})
return word
