-- Take up to n jobs, each under a lease; bring back what is overdue and promote what is due on the
-- way, a few at a time.
-- KEYS: t_paused
-- ARGV: caller seq n lease_ms consumer side queue failed
-- USES: take_reply leased_jobs content promote bulk_write number_words
-- LOOKS: lease meta body lost
-- FLAGS: allow-oom
-- Returns what `taken` says, tickets being ids and receipts in one.
local said, late = replayed()
if late then return superseded end
by = consumer

if said then return taken_before(said, content) end

must_be(t_queue_ .. queue, 'list')
local stopped = conf.paused
if sidekiq then
  stopped = stopped or redis.call('SISMEMBER', t_paused, queue) == 1
else
  stopped = stopped or redis.call('GET', t_paused) == 'true'
end
reap(16)
promote(50)
local list, deadline = t_queue_ .. queue, now + tonumber(lease_ms)
local got = not stopped and redis.call(sidekiq and 'RPOP' or 'LPOP', list, n) or {}
-- Those who push with the owner's own program don't ring: an idle worker looks by itself.
local reply = {#got == 0 and not stopped and string.format('%.0f', now + 500) or '0', '0',
  string.format('%.0f', deadline)}
if #got > 0 then
  local fence, bodies, lines, leases, odd = tickets(#got), {}, {}, {}, {}
  local known = redis.call('HLEN', lost) > 0
  local tail = table.concat({now_text, now_text, consumer, '- - 0'}, ' ')
  local named, times = numbered(fence, #got, '-' .. seq), '0'
  for i = 1, #got do
    local ticket, payload = named[i], got[i]
    if known then
      times = tostring(times_lost(redis.sha1hex(payload)))
      if times ~= '0' then odd[#odd + 1] = i .. ' 0 ' .. times end
    end
    bodies[2 * i - 1], bodies[2 * i] = ticket, payload
    lines[2 * i - 1], lines[2 * i] = ticket, ticket .. ' 0 ' .. times .. ' ' .. tail
    leases[2 * i - 1], leases[2 * i] = reply[3], ticket
    if every then note('taken', shown(payload)) end
  end
  reply[4], reply[5], reply[6] = named[1], table.concat(named, '\n'), table.concat(odd, ' ')
  reply[7] = got
  put_fields(body, bodies)
  put_fields(meta, lines)
  put_scores(lease, leases)
  if #got == tonumber(n) and redis.call('EXISTS', list) == 1 then
    reply[2] = '1'
    wake_workers(1)
  end
end
write_counters()
write_history()
return remember_taken(reply)
