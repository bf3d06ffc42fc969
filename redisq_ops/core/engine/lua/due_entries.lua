-- Taking entries of a kind whose waiting entries are in one sorted set of ready times: the first ones
-- that are due.
-- KEYS: delay meta
-- NEEDS: n consumer
-- USES: config deliver history reclaim_expired take_rate wake_workers write_buffer

-- `payloads`: the hash with the entries' payloads. Returns the reply of the take, and the entries' ids
-- and records.
local function due_entries_take(payloads)
  n = take_rate_allows(n)
  -- mutant a paused queue goes on: config.paused => false
  local due = (config.paused or n == 0) and {}
    -- mutant delayed ones back too early: now_text => '+inf'
    or redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', n, 'WITHSCORES')
  local ids, ready = {}, {}
  for i = 1, #due / 2 do ids[i], ready[i] = due[2 * i - 1], due[2 * i] end
  if #ids == 0 then return {'0', '0', deliver_deadline}, ids, {} end
  write_buffer_drops[delay] = ids
  local lines = redis.call('HMGET', meta, unpack(ids))
  if history_all then for _, id in ipairs(ids) do history_note('taken', id) end end
  return deliver(ids, lines, redis.call('HMGET', payloads, unpack(ids)), ready), ids, lines
end

-- After the flush: note in the reply of a full take that more entries are due, and wake a worker for
-- them. If more will be due while this worker is busy, and it was the one to watch for that, another
-- one is woken to do so.
local function due_entries_more(reply, taken)
  if taken == 0 or taken < tonumber(n) then return end
  local top = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')
  local more = top[2] and tonumber(top[2]) <= now
  if take_rate_stops(more) then return end
  if more then
    reply[2] = '1'
    wake_workers(1)
  elseif top[2] and reclaim_expired_leave_watch(consumer) then
    wake_workers(1)
  end
end
