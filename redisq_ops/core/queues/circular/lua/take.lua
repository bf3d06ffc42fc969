-- Take up to n ids, the one that waits longest first, each under a lease of its own.
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired content examine_element pop_list rotate_list
-- LOOKS: meta body queue spent again transit err dead trash
-- FLAGS: allow-oom
-- Returns what `taken` says.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, content, '') end
by = consumer

n = tonumber(n)
local due = redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', '16')
for i, r in ipairs(records(due)) do move(due[i], 'delayed', 'waiting', 0, r) end
if #due + reap(16) > 0 then flush() end

local more = not conf.paused and (rotate and turn_list(n) or not rotate and pop_list(n))
local reply = {'0', '0', deadline}
if #taken > 0 then
  reply = deliver(taken, found, payloads)
  if every then for _, id in ipairs(taken) do note('taken', id) end end
end
if more then reply[2] = '1' end
flush()
if more and rings and #taken > 0 then wake_workers(1) end
if #taken == 0 and not more and not conf.paused then
  reply[1] = tostring(rings and watch(consumer) or now)
end
return remember_taken(reply)
