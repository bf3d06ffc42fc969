-- End deliveries: ack, result (ack with bytes to keep), fail, give_up (for
-- the last time), reject or release. Only the receipt of
-- the latest delivery counts; any other gets `stale` and changes nothing.
-- RARELY lists the counters, of all kinds of queue, that few settlements change.
-- KEYS: meta err
-- ARGV: caller seq consumer told
-- REST: outcome value delay
-- USES: idempotency parse_settlements transitions config counters history record storage_again
-- USES: type_check
-- TYPES: once
-- RARELY: cancelled gone vt vt_latest
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns one word per delivery, or one for all: done | retry | dead | released | stale.
local reply = idempotency_replayed()
if reply then return reply end
history_by = consumer
reply = {}
local ids, receipts, rows, number = parse_settlements()
local lines = redis.call('HMGET', meta, unpack(ids))
local find, byte = string.find, string.byte
local settled, acked, errors, over, plainly = {}, 0, {}, {}, 0

local function missed(id, outcome, value, wait, r)
  if outcome == 'release' then
    transitions_move(id, 'pending', 'waiting', r.ready > 0 and math.min(r.ready, now) or now, r)
    return 'released'
  end
  -- mutant dead one failure late: max_failures => max_failures + 1
  local spent = record_spend(r, 'failures', config.max_failures)
  r.failed = true -- a fair queue appends it behind its client's entries
  history_tally('f', 1)
  errors[#errors + 1], errors[#errors + 2] = id, value
  if outcome == 'reject' or outcome == 'give_up' or spent then
    r.reason = outcome == 'reject' and 'rejected' or 'failed'
    history_note('dead', id .. '|' .. r.reason)
    transitions_move(id, 'pending', 'dead', now, r)
    return 'dead'
  end
  history_note('failed', id .. '|' .. r.consumer)
  transitions_move(id, 'pending', wait > 0 and 'delayed' or 'waiting', now + wait, r)
  return 'retry'
end

for k = 1, number do
  local id, line, receipt, row = ids[k], lines[k], receipts[k], rows[k]
  -- mutant settled twice in a batch: settled[id] or =>
  if not line or settled[id] or receipt == '-' -- a minus: it is not delivered
    -- mutant settle without fence:
    --   find(line, receipt, 1, true) ~= 1 or byte(line, #receipt + 1) ~= 32 => byte(line) == 45
    or find(line, receipt, 1, true) ~= 1 or byte(line, #receipt + 1) ~= 32 then
    -- mutant a late receipt hides the good one:
    --   reply[k] = 'stale' => reply[k], settled[id] = 'stale', true
    reply[k] = 'stale'
  else
    settled[id] = true -- a stale receipt may precede the valid one
    local outcome, value, wait = 'ack', nil, 0
    if row then
      local at = first + (row - 1) * width
      outcome, value, wait = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    end
    if outcome == 'ack' or outcome == 'result' then
      local again = storage_again(id, wait)
      value = outcome == 'result' and value or nil
      if history_all then history_note('done', id .. '|' .. (now - record_unpack(line).since)) end
      acked = acked + 1
      if again then
        counters_add('done', 1)
        transitions_move(id, 'pending', 'waiting', again, record_unpack(nil), nil, value)
      elseif row then
        transitions_leave(id, 'pending', 'done', value, wait)
      else
        plainly = plainly + 1
        over[plainly] = id
      end
    else
      reply[k] = missed(id, outcome, value, wait, record_unpack(line))
    end
  end
end
history_tally('o', acked)
if plainly > 0 then transitions_finish(over) end
if #errors > 0 then
  type_check_all()
  transitions_check()
  redis.call('HSET', err, unpack(errors))
end
transitions_flush()
if acked == number then return idempotency_remember({'done'}) end
for k = 1, number do reply[k] = reply[k] or 'done' end
return idempotency_remember(reply)
