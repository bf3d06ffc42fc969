-- Take up to n due entries in the order of their ready times, each under a lease.
-- KEYS: delay meta body
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired config history idempotency storage_payload take_reply transitions
-- USES: wake_workers write_buffer
-- TYPES: once
-- RARELY: done gone
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua).
local earlier, late = idempotency_replayed()
if late then return idempotency_superseded end
if earlier then return take_reply_again(earlier, storage_payload, '') end
history_by = consumer

if reclaim_expired(16) > 0 then transitions_flush() end
-- mutant a paused queue goes on: config.paused and {} => {} and nil
local due = config.paused and {}
  -- mutant delayed ones back too early: now_text => '+inf'
  or redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', n, 'WITHSCORES')
local ids, ready, reply = {}, {}, {'0', '0', deliver_deadline}
for i = 1, #due / 2 do ids[i], ready[i] = due[2 * i - 1], due[2 * i] end
if #ids > 0 then
  write_buffer_drops[delay] = ids
  local lines = redis.call('HMGET', meta, unpack(ids))
  reply = deliver(ids, lines, redis.call('HMGET', body, unpack(ids)), ready)
  if history_all then for _, id in ipairs(ids) do history_note('taken', id) end end
end
transitions_flush()
if #ids == tonumber(n) then
  local top = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    reply[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not config.paused then reply[1] = tostring(reclaim_expired_watch(consumer)) end
return take_reply_remember(reply)
