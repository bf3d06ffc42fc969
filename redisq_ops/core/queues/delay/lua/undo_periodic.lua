-- Put a periodic entry back as it was before a step of `change_periodic`, unless it was changed since.
-- `at`: its next time, where it wasn't paused, computed when its latest run was `run`.
-- KEYS: periodic periodic_at periodic_run undo_
-- ARGV: caller seq op step at run
-- USES: idempotency history
-- ENTRIES: undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns: ok | changed (since then, or what it was is kept no longer) | raced (it has another latest
-- run: nothing was done, compute `at` again).
local reply = idempotency_replayed()
if reply then return reply[1] end
local list = undo_ .. op .. ':' .. step
local name, spec, time, before, after = unpack(redis.call('LRANGE', list, 0, 4))
local word = 'changed'
if after then
  if (redis.call('HGET', periodic_run, name) or '') ~= run then return 'raced' end
  local present = redis.call('HGET', periodic, name)
  local state = present and redis.sha1hex(present) or ''
  if present and redis.call('ZSCORE', periodic_at, name) == 'inf' then state = state .. ' paused' end
  if state == after then word = 'ok' end
end
if word == 'ok' then
  if spec == '' then
    redis.call('HDEL', periodic, name)
    redis.call('ZREM', periodic_at, name)
    redis.call('HDEL', periodic_run, name)
  else
    redis.call('HSET', periodic, name, spec)
    if time ~= '' then redis.call('ZADD', periodic_at, time == 'inf' and 'inf' or at, name) end
    if before ~= '' then redis.call('HSETNX', periodic_run, name, before) end
  end
  redis.call('DEL', list)
  history_by = caller
  history_note('op', table.concat({caller, 'undo', op, '1'}, '|'))
  history_write()
end
idempotency_remember({word})
return word
