-- Hand due entries over to another delay set in one step: both queues' keys are in one slot, or this is
-- no cluster. An entry whose id is taken there becomes a dead letter here. One that was scheduled again
-- while it was delivered goes, and runs here again.
-- KEYS: to_body to_delay to_cfg to_wake delay body err callers
-- ARGV: n layout
-- USES: bulk_write reclaim_expired clock config counters history record storage_again take_rate
-- USES: transitions type_check
-- Returns: how many went, how many are dead, 1 if more may be due.
type_check_key(to_body, 'hash')
type_check_key(to_delay, 'zset')
if not redis.call('HGET', to_cfg, 'registered') then
  return {err = 'UNREGISTERED ' .. to_cfg .. ' has no mark of a registration'}
end
if redis.call('HGET', to_cfg, 'closed') then
  return {err = 'CLOSED the queue to hand over to is draining and takes no new entries'}
end
if (tonumber(redis.call('HGET', to_cfg, 'layout') or '') or 0) > tonumber(layout) then
  return {err = 'CLOSED the shards of the queue to hand over to have changed'}
end
n = tonumber(n)
-- As `config` reads them: what isn't a number counts as absent.
local most = tonumber(redis.call('HGET', to_cfg, 'max_waiting') or '') or DEFAULT.max_waiting
if most > 0 then
  n = math.min(n, most - redis.call('ZCARD', to_delay))
  if n < 1 then return {err = 'FULL max_waiting of the queue to hand over to is ' .. most} end
end
n = take_rate_allows(n)
if config.paused or n == 0 then return {0, 0, 0} end
history_by = 'handover'
if reclaim_expired(16) > 0 then transitions_flush() end -- without workers nobody else does it
local ids = redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, n)
local there = #ids > 0 and redis.call('HMGET', to_body, unpack(ids)) or {}
local went, put, errors = {}, {}, {}
for i, r in ipairs(record_read(ids)) do
  local id = ids[i]
  if there[i] then
    r.reason, r.consumer, r.first = 'rejected', history_by, r.first > RECORD_REPLAYED and r.first or now
    errors[#errors + 1], errors[#errors + 2] =
      id, '{"type": "Exists", "message": "the id is taken in the target"}'
    history_note('dead', id .. '|rejected')
    transitions_move(id, 'waiting', 'dead', now, r)
  else
    local again = storage_again(id)
    if again then
      counters_add('done', 1)
      transitions_move(id, 'waiting', again > now and 'delayed' or 'waiting', again, record_unpack(nil))
    else
      transitions_leave(id, 'waiting', 'done')
    end
    if history_all then history_note('handed-over', id) end
    went[#went + 1], put[#put + 1], put[#put + 2] = id, now_text, id
  end
end
transitions_check()
if #went > 0 then
  local bodies = {}
  for k, payload in ipairs(redis.call('HMGET', body, unpack(went))) do
    bodies[2 * k - 1], bodies[2 * k] = went[k], payload or ''
  end
  bulk_write_fields(to_body, bodies)
  bulk_write_scores(to_delay, put)
end
if #errors > 0 then redis.call('HSET', err, unpack(errors)) end
take_rate_count(#ids)
history_tally('o', #went)
if #went > 0 then redis.pcall('LPUSH', to_wake, '1') end
transitions_flush()
redis.call('HSET', callers, CLOCK_FIELD, clock_word())
return {#went, #ids - #went, #ids == n and 1 or 0}
