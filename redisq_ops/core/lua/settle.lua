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
local settled, acked = {}, 0
for k, id in ipairs(ids) do
  local at = first + (k - 1) * width
  local receipt, outcome, wait = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 4])
  local line = lines[k]
  if not line or settled[id] or receipt == '-' or line:sub(1, #receipt + 1) ~= receipt .. ' ' then
    said[k] = 'stale'
  elseif outcome == 'ack' or outcome == 'result' then
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
    local r = unpacked(line)
    if outcome == 'release' then
      move(id, 'pending', 'waiting', r.ready > 0 and r.ready or now, r)
      said[k] = 'released'
    else
      r.failures, r.failed = r.failures + 1, true -- had its turn, where waiting is in turns
      tally('f', 1)
      redis.call('HSET', err, id, ARGV[at + 3])
      if outcome == 'reject' or r.failures >= conf.max_failures then
        r.reason = outcome == 'reject' and 'rejected' or 'failed'
        note('dead', id .. '|' .. r.reason)
        move(id, 'pending', 'dead', now, r)
        said[k] = 'dead'
      else
        note('failed', id .. '|' .. r.consumer)
        move(id, 'pending', wait > 0 and 'delayed' or 'waiting', now + wait, r)
        said[k] = 'retry'
      end
    end
  end
  if said[k] ~= 'stale' then settled[id] = true end -- a late receipt may stand before the good one
end
tally('o', acked)
flush()
return remember(said)
