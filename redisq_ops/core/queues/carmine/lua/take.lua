-- Take up to n queued messages in the order of their ready times, each under a lock, and turn the
-- circle.
-- KEYS: messages locks nattempts backoffs
-- ARGV: caller seq n lease_ms consumer
-- USES: due_entries reclaim_expired empty_polls bulk_write circle config history idempotency record
-- USES: storage_payload take_rate take_reply transitions
-- TYPES: once
-- CHECKS: meta messages locks nattempts backoffs finished stray circle eoq dry_runs
-- RARELY: done gone
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua).
local earlier = idempotency_replayed()
if earlier then return take_reply_again(earlier, storage_payload, '') end
history_by = consumer

if reclaim_expired(16) > 0 then transitions_flush() end
local reply, ids, lines = due_entries_take(messages)
if #ids > 0 then
  local locked, tries = {}, {}
  for i, id in ipairs(ids) do
    locked[2 * i - 1], locked[2 * i] = id, reply[3]
    tries[2 * i - 1], tries[2 * i] = id, record_attempts(record_unpack(lines[i])) + 1
  end
  bulk_write_fields(locks, locked)
  bulk_write_fields(nattempts, tries)
  if redis.call('EXISTS', backoffs) == 1 then redis.call('HDEL', backoffs, unpack(ids)) end
  empty_polls_reset()
end
transitions_flush()
circle_turn()
due_entries_more(reply, #ids)
if #ids == 0 and not config.paused then
  reply[1] = tostring(reclaim_expired_watch(consumer))
  if not take_rate_next() then empty_polls_count() end
end
return take_reply_remember(reply, reclaim_expired_dead)
