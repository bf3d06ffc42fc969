-- Deliveries that end: their ids, and until when equal messages are refused; and content that was
-- enqueued while a message was delivered.
-- KEYS: messages locks backoffs requeued finished next
-- IMPLEMENTS: storage_again storage_prepare
-- USES: type_check visible
local deliveries_ended, deliveries_refusing = {}, {}

-- Enqueued again while it was delivered: that content runs now, or after the handler's backoff.
local function storage_again(id, wait)
  local content = visible_follows() and redis.call('HGET', next, id)
  if not content then return nil end
  -- mutant it runs again for ever
  visible_add(visible_cuts, next, id)
  -- mutant to be queued again for ever
  visible_add(visible_parts, requeued, id)
  -- mutant what runs again has the content of before
  visible_add(visible_puts, messages, id, content)
  -- mutant it runs again without the backoff: now + wait => now
  return now + wait
end

local function storage_prepare()
  if #deliveries_ended + #deliveries_refusing == 0 then return end
  type_check_key(locks, 'hash')
  type_check_key(finished, 'set')
  if #deliveries_refusing > 0 then type_check_key(backoffs, 'hash') end
end
