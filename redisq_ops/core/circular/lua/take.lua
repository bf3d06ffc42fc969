-- Take up to n ids, the one that waits longest first, each under a lease of its own.
-- ARGV: caller seq n lease_ms consumer
-- USES: taken due met pop turn
-- FLAGS: allow-oom
-- Returns: when to look again (ms; 0: no need), 1 if more wait now, the deadline (ms), then rows of id
-- receipt failures lost payload.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, body) end
by = consumer

n = tonumber(n)
local due = redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, 16)
for i, r in ipairs(records(due)) do move(due[i], 'delayed', 'waiting', 0, r) end
if #due + reap(16) > 0 then flush() end

local more = not conf.paused and (rotate and turn_list(n) or not rotate and pop_list(n))
local deadline = now + tonumber(lease_ms)
local reply, fence = {'0', more and '1' or '0', tostring(deadline)}, 0
if #taken > 0 then
  fence = redis.call('HINCRBY', stat, 'fence', #taken) - #taken
  local fresh, tail, at = first_line(consumer) .. '0', '-' .. seq, 3
  for i, id in ipairs(taken) do
    local receipt, failures, lost = (fence + i) .. tail, '0', '0'
    if found[i] then
      local r = unpacked(found[i])
      r.receipt, r.consumer, r.op, r.since, r.ready = receipt, consumer, '-', now, 0
      if r.first == 0 then r.first = now end
      failures, lost = tostring(r.failures), tostring(r.lost)
      hold(id, packed(r), deadline)
    else
      hold(id, receipt .. fresh, deadline)
    end
    if every then note('taken', id) end
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5] =
      id, receipt, failures, lost, payloads[i]
    at = at + 5
  end
end
flush()
if more and rings and #taken > 0 then wake_workers(1) end
if #taken == 0 and not more and not conf.paused then
  reply[1] = tostring(rings and watch(consumer) or now)
end
return remember_taken(reply, fence, taken)
