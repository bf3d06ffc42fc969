-- Take up to n queued messages in the order of their ready times, each under a lock, and turn the
-- circle.
-- KEYS: delay meta messages locks nattempts backoffs
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired empty_polls bulk_write circle config history idempotency record
-- USES: storage_payload take_reply transitions wake_workers write_buffer
-- TYPES: once
-- CHECKS: meta messages locks nattempts backoffs finished stray circle eoq dry_runs
-- RARELY: done gone
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua).
local earlier, late = idempotency_replayed()
if late then return idempotency_superseded end
if earlier then return take_reply_again(earlier, storage_payload, '') end
history_by = consumer

if reclaim_expired(16) > 0 then transitions_flush() end
local function tries_of(line)
  local r = record_unpack(line)
  return r.failures + r.lost + 1
end

-- mutant a paused queue goes on: config.paused and {} => {} and nil
local due = config.paused and {}
  -- mutant delayed ones back too early: now_text => '+inf'
  or redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', n, 'WITHSCORES')
local ids, ready, reply = {}, {}, {'0', '0', deliver_deadline}
for i = 1, #due / 2 do ids[i], ready[i] = due[2 * i - 1], due[2 * i] end
if #ids > 0 then
  write_buffer_drops[delay] = ids
  local lines = redis.call('HMGET', meta, unpack(ids))
  reply = deliver(ids, lines, redis.call('HMGET', messages, unpack(ids)), ready)
  local locked, tries = {}, {}
  for i = 1, #ids do
    local id = ids[i]
    locked[2 * i - 1], locked[2 * i] = id, deliver_deadline
    tries[2 * i - 1], tries[2 * i] = id, lines[i] and tries_of(lines[i]) or '1'
    if history_all then history_note('taken', id) end
  end
  bulk_write_fields(locks, locked)
  bulk_write_fields(nattempts, tries)
  if redis.call('EXISTS', backoffs) == 1 then redis.call('HDEL', backoffs, unpack(ids)) end
  empty_polls_reset()
end
transitions_flush()
circle_turn()
if #ids == tonumber(n) then
  local top = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    reply[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not config.paused then
  reply[1] = tostring(reclaim_expired_watch(consumer))
  empty_polls_count()
end
return take_reply_remember(reply)
