-- Take up to n queued messages in the order of their ready times, each under a lock of its own, and
-- turn the circle.
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired content empty_polls
-- LOOKS: meta messages locks nattempts backoffs finished stray circle eoq dry_runs
-- FLAGS: allow-oom
-- Returns what `taken` says.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, content, '') end
by = consumer

if reap(16) > 0 then flush() end
local function tries_of(line)
  local r = unpacked(line)
  return r.failures + r.lost + 1
end

local due = conf.paused and {}
  or redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', n, 'WITHSCORES')
local ids, ready, reply = {}, {}, {'0', '0', deadline}
for i = 1, #due / 2 do ids[i], ready[i] = due[2 * i - 1], due[2 * i] end
if #ids > 0 then
  drops[delay] = ids
  local lines = redis.call('HMGET', meta, unpack(ids))
  reply = deliver(ids, lines, redis.call('HMGET', messages, unpack(ids)), ready)
  local locked, tries = {}, {}
  for i = 1, #ids do
    local id = ids[i]
    locked[2 * i - 1], locked[2 * i] = id, deadline
    tries[2 * i - 1], tries[2 * i] = id, lines[i] and tries_of(lines[i]) or '1'
    if every then note('taken', id) end
  end
  put_fields(locks, locked)
  put_fields(nattempts, tries)
  if redis.call('EXISTS', backoffs) == 1 then redis.call('HDEL', backoffs, unpack(ids)) end
  found_work()
end
flush()
turn()
if #ids == tonumber(n) then
  local top = redis.call('ZRANGE', delay, '0', '0', 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    reply[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not conf.paused then
  reply[1] = tostring(watch(consumer))
  ran_dry()
end
return remember_taken(reply)
