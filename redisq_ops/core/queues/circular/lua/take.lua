-- Take up to n ids, the one that waits longest first, each under a lease.
-- KEYS: delay
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired batch pop_list rotate_list config elements history idempotency record
-- USES: storage_payload take_rate take_reply transitions wake_workers
-- TYPES: once
-- CHECKS: meta body queue spent again transit err dead trash
-- RARELY: done gone
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua).
local earlier = idempotency_replayed()
if earlier then return take_reply_again(earlier, storage_payload, '') end
history_by = consumer

n = take_rate_allows(tonumber(n))
-- mutant delayed ones back too early: now_text => '+inf'
local due = redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', '16')
for i, r in ipairs(record_read(due)) do transitions_move(due[i], 'delayed', 'waiting', 0, r) end
if #due + reclaim_expired(16) > 0 then transitions_flush() end

-- mutant a paused circle goes on: not config.paused => true
local more = not config.paused and n > 0
  and (elements_rotate and rotate_list(n) or not elements_rotate and pop_list(n))
local reply = {'0', '0', deliver_deadline}
if #batch_ids > 0 then
  reply = deliver(batch_ids, batch_lines, batch_payloads)
  if history_all then for _, id in ipairs(batch_ids) do history_note('taken', id) end end
end
transitions_flush()
if #batch_ids > 0 and take_rate_stops(more) then more = false end
if more then reply[2] = '1' end
if more and elements_wake and #batch_ids > 0 then wake_workers(1) end
if #batch_ids == 0 and not more and not config.paused then
  reply[1] = tostring(elements_wake and reclaim_expired_watch(consumer) or now)
end
return take_reply_remember(reply, reclaim_expired_dead)
