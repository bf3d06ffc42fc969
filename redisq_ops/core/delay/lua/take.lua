-- Take up to n due entries in the order of their ready times, each under a lease of its own.
-- ARGV: caller seq n lease_ms consumer
-- USES: taken due
-- FLAGS: allow-oom
-- Returns: when to look again (ms; 0: no need), 1 if more are due now, the deadline (ms), then
-- rows of id receipt failures lost payload.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, body) end
by = consumer

if reap(16) > 0 then flush() end
local deadline = now + tonumber(lease_ms)
local reply, fence = {'0', '0', tostring(deadline)}, 0
local due = conf.paused and {}
  or redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES')
local ids = {}
for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
if #ids > 0 then
  fence = redis.call('HINCRBY', stat, 'fence', #ids) - #ids
  drops[delay] = ids
  local fresh, tail, at = first_line(consumer), '-' .. seq, 3
  local lines, bodies = redis.call('HMGET', meta, unpack(ids)), redis.call('HMGET', body, unpack(ids))
  for i, id in ipairs(ids) do
    local receipt, failures, lost = (fence + i) .. tail, '0', '0'
    if lines[i] then
      local r = unpacked(lines[i])
      r.receipt, r.consumer, r.op, r.since, r.ready = receipt, consumer, '-', now, due[2 * i]
      if r.first == 0 then r.first = now end
      failures, lost = tostring(r.failures), tostring(r.lost)
      hold(id, packed(r), deadline)
    else
      hold(id, receipt .. fresh .. due[2 * i], deadline)
    end
    if every then note('taken', id) end
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5] =
      id, receipt, failures, lost, bodies[i]
    at = at + 5
  end
end
flush()
if #ids == tonumber(n) then
  local top = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    reply[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not conf.paused then reply[1] = tostring(watch(consumer)) end
return remember_taken(reply, fence, ids)
