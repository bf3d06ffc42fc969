-- Change how a client is served: its weight, its cap in flight (0: none), whether it is blocked.
-- ARGV: caller seq rule client value
-- USES: guard moves
-- FLAGS: allow-oom
-- Returns the word `ok` or `same`, and what the value was before.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
local a = opened(client, redis.call('HGET', accounts, client))
local before = tostring(a[rule])
if a.new and conf.retired and redis.call('EXISTS', body) == 0 then
  return {'same', before} -- a shard that is given up, and may be cleared by now: begin nothing there
end
touched[client] = a
if before ~= value then
  a[rule] = tonumber(value)
  note('op', table.concat({caller, rule, client, value}, '|'))
end
flush()
return remember({before == value and 'same' or 'ok', before})
