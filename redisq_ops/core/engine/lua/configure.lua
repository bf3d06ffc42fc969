-- Change settings and flags of a queue; an empty value removes the field.
-- ARGV: caller seq
-- `was`: written only where it is that now, quoted as a value, '' for absent; '*' for anything.
-- REST: name value was
-- USES: idempotency history
-- FLAGS: allow-oom
-- Returns one word per row: what the field was before, or - for absent.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
said = {}
for i = first, #ARGV, width do
  local name, value, was = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local before = redis.call('HGET', cfg, name)
  said[#said + 1] = before or '-'
  if was == '*' or was == (before or '') then
    if value == '' then
      redis.call('HDEL', cfg, name)
    else
      redis.call('HSET', cfg, name, value)
    end
    note('op', table.concat({caller, 'set', name, value == '' and '-' or value}, '|'))
  end
end
write_history()
return remember(said)
