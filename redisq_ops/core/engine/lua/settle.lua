-- End deliveries: ack, result (ack with bytes to keep), fail, reject or release. Only the holder of
-- the latest delivery is heard; a late one is told `stale` and changes nothing.
-- ARGV: caller seq consumer told
-- REST: outcome value delay
-- USES: idempotency parse_settlements transitions
-- FLAGS: allow-oom
-- Returns one word for each, or one for all: done | retry | dead | released | stale.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = consumer
said = {}
local lines = redis.call('HMGET', meta, unpack(ids))
local find, byte = string.find, string.byte
local settled, acked, errors, over, plainly = {}, 0, {}, {}, 0

local function missed(id, outcome, value, wait, r)
  if outcome == 'release' then
    move(id, 'pending', 'waiting', r.ready > 0 and math.min(r.ready, now) or now, r)
    return 'released'
  end
  r.failures, r.failed = r.failures + 1, true -- had its turn, where waiting is in turns
  tally('f', 1)
  errors[#errors + 1], errors[#errors + 2] = id, value
  if outcome == 'reject' or r.failures >= conf.max_failures then
    r.reason = outcome == 'reject' and 'rejected' or 'failed'
    note('dead', id .. '|' .. r.reason)
    move(id, 'pending', 'dead', now, r)
    return 'dead'
  end
  note('failed', id .. '|' .. r.consumer)
  move(id, 'pending', wait > 0 and 'delayed' or 'waiting', now + wait, r)
  return 'retry'
end

for k = 1, number do
  local id, line, receipt, row = ids[k], lines[k], receipts[k], rows[k]
  if not line or settled[id] or receipt == '-' -- a minus: it was taken away
    or find(line, receipt, 1, true) ~= 1 or byte(line, #receipt + 1) ~= 32 then
    said[k] = 'stale'
  else
    settled[id] = true -- a late receipt may stand before the good one
    local outcome, value, wait = 'ack', nil, 0
    if row then
      local at = first + (row - 1) * width
      outcome, value, wait = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    end
    if outcome == 'ack' or outcome == 'result' then
      local again = room_again(id, wait)
      if every then note('done', id .. '|' .. (now - unpacked(line).since)) end
      acked = acked + 1
      if again then
        count('done', 1)
        move(id, 'pending', 'waiting', again, unpacked(nil))
      elseif row then
        leave(id, 'pending', 'done', outcome == 'result' and value or nil, wait)
      else
        plainly = plainly + 1
        over[plainly] = id
      end
    else
      said[k] = missed(id, outcome, value, wait, unpacked(line))
    end
  end
end
tally('o', acked)
if plainly > 0 then finish(over) end
if #errors > 0 then
  fit()
  ready()
  redis.call('HSET', err, unpack(errors))
end
flush()
if acked == number then return remember({'done'}) end
for k = 1, number do said[k] = said[k] or 'done' end
return remember(said)
