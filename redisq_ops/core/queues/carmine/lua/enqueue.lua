-- Put messages in, ready `backoff` ms from now. A message that is here already: queued: refused, or
-- given this content (`update`); locked, or done with a backoff: refused, or run again after it
-- (`requeue`); done: put in again. If the queue has a newer `layout` of its shards than the caller, a
-- message that isn't here is `elsewhere`, and nothing is done with it.
-- KEYS: delay messages requeued finished nattempts backoffs next
-- ARGV: caller seq backoff requeue update layout
-- REST: id content
-- USES: idempotency transitions message_facts reclaim_expired bulk_write circle clock config history
-- USES: registered
-- USES: record wake_workers write_buffer max_waiting
-- TYPES: once
-- CHECKS: next requeued circle stray finished nattempts backoffs err
-- Returns a word per row, or one for all: ok | updated | requeued | elsewhere, or the state it was
-- refused for.
registered_check()
local reply = idempotency_replayed()
if reply then return reply end
if config.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
if clock_fall or clock_latest > now then reclaim_expired_correct_clock(100) end
local ids = {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
history_by, reply = caller:match('^[^:]*'), {}
local known = message_facts(ids) -- updated by each row of this call
-- mutant dead ones changed: open = {queued => open = {dead = true, queued
local open = {queued = true, ['queued-with-backoff'] = true, ['locked-with-requeue'] = true}
local top = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')[2]
local put, contents, waits, follow, again, fresh, reset, changed = {}, {}, {}, {}, {}, {}, {}, {}
local soonest, ready_at = nil, now + tonumber(backoff)
local ready_text = string.format('%.0f', ready_at)
local queued, backed_off = {state = 'queued'}, {state = 'queued-with-backoff'}
local function both(list, one, two) list[#list + 1], list[#list + 2] = one, two end
for k, id in ipairs(ids) do
  local content, it, ready = ARGV[first + (k - 1) * width + 1], known[id], nil
  local word = it.state
  if word == 'nx' or word == 'done-awaiting-gc' then
    word, ready = 'ok', ready_at
  elseif word == 'done-with-backoff' and requeue == '1' then
    -- mutant a backoff cut short: math.max(it.over, ready_at) => ready_at
    word, ready = 'requeued', math.max(it.over, ready_at)
  -- mutant a lock that lets in: and requeue == '1' =>
  elseif word == 'locked' and requeue == '1' then
    word, it.state, it.follows = 'requeued', 'locked-with-requeue', true
    again[#again + 1] = id
    both(follow, id, content)
  elseif update == '1' and open[word] then
    word = 'updated'
    -- mutant older content runs last: it.follows and follow or =>
    both(it.follows and follow or contents, id, content) -- the latest content runs last
    if not it.follows then changed[#changed + 1] = id end
  end
  if ready then
    local list = it.state == 'nx' and fresh or reset
    list[#list + 1] = id
    local at = ready == ready_at and ready_text or string.format('%.0f', ready)
    both(put, at, id)
    both(contents, id, content)
    if ready > now then both(waits, id, at) end
    if clock_fall then reclaim_expired_mark_new(id) end
    known[id] = ready > now and backed_off or queued
    if not soonest or ready < soonest then soonest = ready end
    if history_all then history_note('submitted', id .. '|' .. at) end
  end
  reply[k] = word
end
local n = #put / 2
if n > 0 and config.max_waiting > 0 then
  local full = max_waiting_refusal(redis.call('ZCARD', delay), n)
  if full then return full end
end
if #contents > 0 then bulk_write_fields(messages, contents) end
if #follow > 0 then redis.call('HSET', next, unpack(follow)) end
if #again > 0 then redis.call('SADD', requeued, unpack(again)) end
if #fresh > 0 then circle_add(fresh) end
if #reset > 0 then
  -- mutant done and queued
  redis.call('SREM', finished, unpack(reset))
  -- mutant attempts of its last life
  redis.call('HDEL', nattempts, unpack(reset))
  redis.call('HDEL', backoffs, unpack(reset))
end
if #waits > 0 then redis.call('HSET', backoffs, unpack(waits)) end
for i, r in ipairs(record_read(changed)) do
  -- mutant new content undone
  r.op = '-' -- changed: an operator's undo leaves it alone
  write_buffer_retain(changed[i], r)
end
if n > 0 then
  bulk_write_scores(delay, put)
  history_tally('i', n)
  local due = soonest <= now -- a worker sleeps until the time that was first
  if not top or soonest < tonumber(top) or due then wake_workers(due and n or 1) end
end
transitions_flush()
return idempotency_remember_words(reply, CLOCK_FIELD, clock_word())
