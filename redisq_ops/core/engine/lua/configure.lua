-- Change settings and flags of a queue; an empty value removes the field. `was`: write only if the
-- field has this value now, quoted as values are, '' for absent; '*': in any case.
-- KEYS: cfg
-- ARGV: caller seq
-- REST: name value was
-- USES: idempotency history registered
-- FLAGS: allow-oom
-- Returns one word per row: the field's value before, or - for absent.
registered_check()
local reply = idempotency_replayed()
if reply then return reply end
history_by = caller
reply = {}
for i = first, #ARGV, width do
  local name, value, was = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local before = redis.call('HGET', cfg, name)
  reply[#reply + 1] = before or '-'
  if was == '*' or was == (before or '') then
    if value == '' then
      redis.call('HDEL', cfg, name)
    else
      redis.call('HSET', cfg, name, value)
    end
    history_note('op', table.concat({caller, 'set', name, value == '' and '-' or value}, '|'))
  end
end
history_write()
return idempotency_remember(reply)
