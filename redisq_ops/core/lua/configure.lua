-- Change settings and flags of a queue; an empty value removes the field.
-- ARGV: caller seq
-- REST: name value
-- USES: guard history
-- FLAGS: allow-oom
-- Returns one word per row: what the field was before, or - for absent.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
said = {}
for i = first, #ARGV, width do
  local name, value = ARGV[i], ARGV[i + 1]
  said[#said + 1] = redis.call('HGET', cfg, name) or '-'
  if value == '' then
    redis.call('HDEL', cfg, name)
  else
    redis.call('HSET', cfg, name, value)
  end
  note('op', table.concat({caller, 'set', name, value == '' and '-' or value}, '|'))
end
write_history()
return remember(said)
