-- End deliveries: ack, result (ack with bytes to keep), fail, reject or release. Only the holder of
-- the latest delivery is heard; a late one is told `stale` and changes nothing.
-- ARGV: caller seq consumer
-- REST: id receipt outcome value delay
-- USES: guard moves
-- FLAGS: allow-oom
-- Returns one word per row: done | retry | dead | released | stale.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = consumer
said = {}
local ids = {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
local lines = redis.call('HMGET', meta, unpack(ids))
local find, byte = string.find, string.byte
local settled, acked, errors = {}, 0, {}

-- Whether a line begins with the word `receipt`; one that was taken away is a minus.
local function held(line, receipt)
  return receipt ~= '-' and find(line, receipt, 1, true) == 1 and byte(line, #receipt + 1) == 32
end

local function missed(id, outcome, value, wait, r)
  if outcome == 'release' then
    move(id, 'pending', 'waiting', r.ready > 0 and r.ready or now, r)
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

for k = 1, #ids do
  local id, line, at = ids[k], lines[k], first + (k - 1) * width
  local receipt, outcome, wait = ARGV[at + 1], ARGV[at + 2], ARGV[at + 4]
  if not line or settled[id] or not held(line, receipt) then
    said[k] = 'stale'
  else
    settled[id] = true -- a late receipt may stand before the good one
    wait = wait == '0' and 0 or tonumber(wait)
    if outcome == 'ack' or outcome == 'result' then
      local again = room_again(id, wait)
      if every then note('done', id .. '|' .. (now - unpacked(line).since)) end
      acked = acked + 1
      if again then
        count('done', 1)
        move(id, 'pending', 'waiting', again, unpacked(nil))
      else
        leave(id, 'pending', 'done', outcome == 'result' and ARGV[at + 3] or nil, wait)
      end
      said[k] = 'done'
    else
      said[k] = missed(id, outcome, ARGV[at + 3], wait, unpacked(line))
    end
  end
end
tally('o', acked)
if #errors > 0 then
  room_ready(admit)
  fit()
  redis.call('HSET', err, unpack(errors))
end
flush()
return remember(said)
