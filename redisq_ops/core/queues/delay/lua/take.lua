-- Take up to n due entries in the order of their ready times, each under a lease.
-- KEYS: body
-- ARGV: caller seq n lease_ms consumer
-- USES: due_entries reclaim_expired config history idempotency storage_payload take_reply transitions
-- TYPES: once
-- RARELY: done gone
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua).
local earlier = idempotency_replayed()
if earlier then return take_reply_again(earlier, storage_payload, '') end
history_by = consumer

if reclaim_expired(16) > 0 then transitions_flush() end
local reply, ids = due_entries_take(body)
transitions_flush()
due_entries_more(reply, #ids)
if #ids == 0 and not config.paused then reply[1] = tostring(reclaim_expired_watch(consumer)) end
return take_reply_remember(reply, reclaim_expired_dead)
