-- Put entries in for a time. `at`: a ready time (ms), or +ms from now. If the id is there, the mode
-- `new` refuses another payload or time, and `move` reschedules (a pending entry runs again at the new
-- time after it is acknowledged). If the queue has a newer `layout` of its shards than the caller, an
-- id that isn't here is `elsewhere`, and nothing is done with it.
-- KEYS: transit delay body lease next trash
-- ARGV: caller seq mode layout
-- REST: id at payload
-- USES: idempotency transitions bulk_write reclaim_expired clock config history record type_check
-- USES: registered
-- USES: wake_workers write_buffer max_waiting
-- TYPES: once
-- Returns `word:ready time` per row, or one for all: ok | same | trash (the same, but purged) | moved |
-- again | exists | elsewhere.
registered_check()
local reply = idempotency_replayed()
if reply then return reply end
if config.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
if clock_fall or clock_latest > now then reclaim_expired_correct_clock(100) end
local ids, rows = {}, (#ARGV - first + 1) / width
for k = 1, rows do ids[k] = ARGV[first + (k - 1) * width] end
history_by, reply = caller:match('^[^:]*'), {}
local top, soonest = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')[2], nil
local put, bodies, follow, moved, fresh, n = {}, {}, {}, {}, 0, 0
local times, contents = {}, {} -- of ids in earlier rows of this call
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local olds = redis.call('HMGET', body, unpack(ids))
local wish, relative, wished, text_of_it -- most rows of a call have the same time
for k = 1, rows do
  local row = first + (k - 1) * width
  local id, at, content = ids[k], ARGV[row + 1], ARGV[row + 2]
  if at ~= wish then
    wish, relative = at, at:match('^%+(%d+)$')
    wished = relative and now + tonumber(relative) or tonumber(at)
    text_of_it = string.format('%.0f', wished)
  end
  local word, ready, text, there = 'ok', wished, text_of_it, contents[id] or olds[k]
  if there then
    local when = times[id] or tonumber(redis.call('ZSCORE', delay, id))
    -- mutant scheduled between two shards: redis.call('HEXISTS', transit, id) == 1 => false
    if not when and redis.call('HEXISTS', transit, id) == 1 then
      word, ready = 'elsewhere', 0
    elseif mode == 'move' and when then
      word = 'moved'
      moved[#moved + 1] = id
    elseif mode == 'move' and redis.call('ZSCORE', lease, id) then
      word = 'again'
      follow[#follow + 1], follow[#follow + 2] = id, text .. ' ' .. content
    -- mutant taken names overwritten: there == content => true
    elseif there == content and (not when or when == ready) then
      word, ready = not when and redis.call('ZSCORE', trash, id) and 'trash' or 'same', when or 0
    else
      word, ready = 'exists', when or 0
    end
    if ready ~= wished then text = string.format('%.0f', ready) end
  -- mutant scheduled by an old layout: newer => false
  elseif newer then
    word, text = 'elsewhere', '0'
  end
  if word == 'ok' or word == 'moved' then
    put[n + 1], put[n + 2], bodies[n + 1], bodies[n + 2], n = text, id, id, content, n + 2
    times[id], contents[id], fresh = ready, content, fresh + (word == 'ok' and 1 or 0)
    if word == 'ok' and clock_fall then reclaim_expired_mark_new(id) end
    if not soonest or ready < soonest then soonest = ready end
    if history_all then history_note('submitted', id .. '|' .. text) end
  end
  reply[k] = word .. ':' .. text
end
if fresh > 0 and config.max_waiting > 0 then
  local full = max_waiting_refusal(redis.call('ZCARD', delay), fresh)
  if full then return full end
end
for i, r in ipairs(record_read(moved)) do
  -- mutant a rescheduled entry undone: since = '-' => since = r.op
  r.op, r.since = '-', clock_fall and now or 0 -- no undo moves it; its time is no back-off
  write_buffer_retain(moved[i], r)
end
if #follow + #moved > 0 then type_check_key(next, 'hash') end
transitions_check()
if #follow > 0 then redis.call('HSET', next, unpack(follow)) end
-- mutant an older viewport wins: HDEL => HMGET
if #moved > 0 then redis.call('HDEL', next, unpack(moved)) end -- the latest request counts
if n > 0 then
  bulk_write_fields(body, bodies)
  bulk_write_scores(delay, put)
  history_tally('i', fresh)
  local due = soonest <= now -- a worker sleeps until the time that was first
  if not top or soonest < tonumber(top) or due then wake_workers(due and n / 2 or 1) end
end
transitions_flush()
return idempotency_remember_words(reply, CLOCK_FIELD, clock_word())
