-- Take up to n jobs, each under a lease; bring back what is overdue and promote what is due on the
-- way, a few at a time.
-- KEYS: t_paused
-- ARGV: caller seq n lease_ms consumer side queue failed
-- USES: guard held promote large numbers
-- FLAGS: allow-oom
-- Returns: when to look again (ms), 1 if the queue has more, the deadline (ms), then rows of
-- ticket lost payload.
local said, late = replayed()
if late then return superseded end
by = consumer

if said then
  local reply = {said[1], said[2], said[3]}
  for i = 4, #said do
    local payload = redis.call('HGET', body, said[i])
    if payload then
      reply[#reply + 1] = said[i]
      reply[#reply + 1] = tostring(unpacked(redis.call('HGET', meta, said[i])).lost)
      reply[#reply + 1] = payload
    end
  end
  return reply
end

reap(16)
promote(50)
local stopped = conf.paused
if sidekiq then
  stopped = stopped or redis.call('SISMEMBER', t_paused, queue) == 1
else
  stopped = stopped or redis.call('GET', t_paused) == 'true'
end
local list, deadline = t_queue_ .. queue, now + tonumber(lease_ms)
local got = not stopped and redis.call(sidekiq and 'RPOP' or 'LPOP', list, n) or {}
-- Those who push with the owner's own program don't ring: an idle worker looks by itself.
local reply = {#got == 0 and not stopped and string.format('%.0f', now + 500) or '0', '0',
  string.format('%.0f', deadline)}
local kept = {reply[1], '0', reply[3]}
if #got > 0 then
  local fence, bodies, lines, leases = tickets(#got), {}, {}, {}
  local known = redis.call('HLEN', lost) > 0
  local tail = table.concat({now, now, consumer, '- - 0'}, ' ')
  local named, times = numbered(fence, #got, '-' .. seq), '0'
  for i, payload in ipairs(got) do
    local ticket = named[i]
    if known then times = tostring(times_lost(redis.sha1hex(payload))) end
    bodies[2 * i - 1], bodies[2 * i] = ticket, payload
    lines[2 * i - 1], lines[2 * i] = ticket, ticket .. ' 0 ' .. times .. ' ' .. tail
    leases[2 * i - 1], leases[2 * i] = reply[3], ticket
    kept[3 + i] = ticket
    reply[3 * i + 1], reply[3 * i + 2], reply[3 * i + 3] = ticket, times, payload
    if every then note('taken', shown(payload)) end
  end
  put_fields(body, bodies)
  put_fields(meta, lines)
  put_scores(lease, leases)
  if #got == tonumber(n) and redis.call('EXISTS', list) == 1 then
    reply[2], kept[2] = '1', '1'
    wake_workers(1)
  end
end
write_counters()
write_history()
remember(kept)
return reply
