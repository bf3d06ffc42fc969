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
local seen = {}
for k, r in ipairs(records(ids)) do
  local at = first + (k - 1) * width
  local id, receipt, outcome, value = ids[k], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local wait = tonumber(ARGV[at + 4])
  if r.receipt ~= receipt or receipt == '-' or seen[id] then
    said[k] = 'stale'
  elseif outcome == 'ack' or outcome == 'result' then
    local again = room_again(id)
    note('done', id .. '|' .. (now - r.since))
    tally('o', 1)
    if again then
      count('done', 1)
      move(id, 'pending', 'waiting', again, unpacked(nil))
    else
      move(id, 'pending', 'done', 0, r, outcome == 'result' and value or nil)
    end
    said[k] = 'done'
  elseif outcome == 'release' then
    move(id, 'pending', 'waiting', r.ready > 0 and r.ready or now, r)
    said[k] = 'released'
  else
    r.failures = r.failures + 1
    tally('f', 1)
    redis.call('HSET', err, id, value)
    if outcome == 'reject' or r.failures >= conf.max_failures then
      r.reason = outcome == 'reject' and 'rejected' or 'failed'
      note('dead', id .. '|' .. r.reason)
      move(id, 'pending', 'dead', now, r)
      said[k] = 'dead'
    else
      note('failed', id .. '|' .. r.consumer)
      local state = wait > 0 and 'delayed' or 'waiting'
      move(id, 'pending', state, now + wait, r)
      said[k] = 'retry'
    end
  end
  seen[id] = true
end
flush()
return remember(said)
