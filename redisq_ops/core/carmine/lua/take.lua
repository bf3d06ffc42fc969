-- Take up to n queued messages in the order of their ready times, each under a lock of its own, and
-- turn the circle.
-- ARGV: caller seq n lease_ms consumer
-- USES: taken due dry
-- FLAGS: allow-oom
-- Returns: when to look again (ms; 0: no need), 1 if more are due now, the deadline (ms), then
-- rows of id receipt failures lost payload.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, messages) end
by = consumer

if reap(16) > 0 then flush() end
local deadline = now + tonumber(lease_ms)
local reply, fence = {'0', '0', tostring(deadline)}, 0
local due = conf.paused and {}
  or redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES')
local ids = {}
for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
if #ids > 0 then
  fence = redis.call('HINCRBY', stat, 'fence', #ids) - #ids
  drops[delay] = ids
  local fresh, tail, at = first_line(consumer), '-' .. seq, 3
  local lines = redis.call('HMGET', meta, unpack(ids))
  local contents = redis.call('HMGET', messages, unpack(ids))
  local locked, tries = {}, {}
  for i, id in ipairs(ids) do
    local receipt, failures, lost, try = (fence + i) .. tail, '0', '0', 1
    if lines[i] then
      local r = unpacked(lines[i])
      r.receipt, r.consumer, r.op, r.since, r.ready = receipt, consumer, '-', now, due[2 * i]
      if r.first == 0 then r.first = now end
      failures, lost, try = tostring(r.failures), tostring(r.lost), r.failures + r.lost + 1
      hold(id, packed(r), deadline)
    else
      hold(id, receipt .. fresh .. due[2 * i], deadline)
    end
    locked[2 * i - 1], locked[2 * i] = id, deadline
    tries[2 * i - 1], tries[2 * i] = id, try
    if every then note('taken', id) end
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5] =
      id, receipt, failures, lost, contents[i]
    at = at + 5
  end
  redis.call('HSET', locks, unpack(locked))
  redis.call('HSET', nattempts, unpack(tries))
  if redis.call('EXISTS', backoffs) == 1 then redis.call('HDEL', backoffs, unpack(ids)) end
  found_work()
end
flush()
turn()
if #ids == tonumber(n) then
  local top = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    reply[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not conf.paused then
  reply[1] = tostring(watch(consumer))
  ran_dry()
end
return remember_taken(reply, fence, ids)
