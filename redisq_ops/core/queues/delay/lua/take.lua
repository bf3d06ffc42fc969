-- Take up to n due entries in the order of their ready times, each under a lease of its own.
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired content
-- FLAGS: allow-oom
-- Returns what `taken` says.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, content, '') end
by = consumer

if reap(16) > 0 then flush() end
local due = conf.paused and {}
  or redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', n, 'WITHSCORES')
local ids, ready, reply = {}, {}, {'0', '0', deadline}
for i = 1, #due / 2 do ids[i], ready[i] = due[2 * i - 1], due[2 * i] end
if #ids > 0 then
  drops[delay] = ids
  local lines = redis.call('HMGET', meta, unpack(ids))
  reply = deliver(ids, lines, redis.call('HMGET', body, unpack(ids)), ready)
  if every then for _, id in ipairs(ids) do note('taken', id) end end
end
flush()
if #ids == tonumber(n) then
  local top = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    reply[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not conf.paused then reply[1] = tostring(watch(consumer)) end
return remember_taken(reply)
