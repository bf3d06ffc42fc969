-- Take up to n entries, each under a lease, and each of the client whose turn it is.
-- KEYS: body delay ring meta owner stat
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired select_clients accounts bulk_write client_rates clock config history
-- USES: idempotency leave_list record take_rate take_reply transitions wake_workers
-- USES: storage_stored_payload
-- TYPES: once
-- CHECKS: meta body owner clients packing holes
-- RARELY: done gone
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua); each payload has its client in front.
local earlier = idempotency_replayed()
if earlier then return take_reply_again(earlier, storage_stored_payload, '') end
history_by = consumer

n = take_rate_allows(tonumber(n))
-- mutant delayed ones back too early: now_text => '+inf'
local due = redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', '16')
for i, r in ipairs(record_read(due)) do transitions_move(due[i], 'delayed', 'waiting', 0, r) end
local back = client_rates_return(clock_fall or clock_latest > now) -- which `reclaim_expired` corrects
local begun = #due + back + reclaim_expired(16) > 0 -- then an error ends the call; the next reports it
if begun then transitions_flush() end

local ids, whose, latest, start, stopped = {}, {}, 0, 0, false
-- mutant a paused queue serves: not config.paused => true
if not config.paused and n > 0 then
  local names = redis.call('ZRANGE', ring, '0', n - 1)
  local sound, why = pcall(accounts_load, names)
  if not sound and not begun then error({err = why}) end -- pcall makes the table a string
  stopped = not sound
  if sound then ids, whose, latest, start = select_clients(n, names) end
end

local reply = {'0', '0', deliver_deadline}
if #ids > 0 then
  local lines = redis.call('HMGET', meta, unpack(ids))
  reply = deliver(ids, lines, redis.call('HMGET', body, unpack(ids)))
  local owned = {}
  for i = 1, #ids do
    local id = ids[i]
    owned[2 * i - 1], owned[2 * i] = id, whose[i]
    if history_all then history_note('taken', id .. '|' .. whose[i]) end
  end
  bulk_write_fields(owner, owned)
end
transitions_flush()
if #ids > 0 then
  local others, present, before = redis.call('ZCARD', ring), accounts_virtual_time()
  latest = math.max(latest, before)
  -- If no client is left to serve, none is owed a turn: the next ones all begin at the same time.
  -- mutant a debt for ever: others > 0 => true
  redis.call('HSET', stat, 'vt', string.format('%.0f', others > 0 and math.max(present, start)
    or latest), 'vt_latest', string.format('%.0f', latest))
  local stopped = take_rate_stops(others > 0 or client_rates_any())
  if not stopped and others > 0 and (#ids == n or leave_list_budget <= 0) then
    reply[2] = '1'
    wake_workers(1)
  elseif not stopped and others == 0 then
    client_rates_pass_on()
  end
elseif leave_list_budget <= 0 or stopped then
  reply[2] = '1'
-- mutant a paused queue serves: not config.paused => true
elseif not config.paused then
  reply[1] = tostring(reclaim_expired_watch(consumer, client_rates_next()))
end
return take_reply_remember(reply, reclaim_expired_dead)
