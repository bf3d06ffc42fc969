-- Deliveries that end: ids, and with them until when equal messages are refused; and what was enqueued
-- again meanwhile.
-- KEYS: messages locks backoffs requeued finished next
-- USES: type_check visible_state
local ended, refusing = {}, {}

-- Enqueued again while it was being worked on: what came then, now or after the handler's backoff.
local function room_again(id, wait)
  local content = some_follow() and redis.call('HGET', next, id)
  if not content then return nil end
  add(cuts, next, id)
  add(parts, requeued, id)
  add(puts, messages, id, content)
  return now + wait
end

local function room_read()
  if #ended + #refusing == 0 then return end
  must_be(locks, 'hash')
  must_be(finished, 'set')
  if #refusing > 0 then must_be(backoffs, 'hash') end
end
