-- Take up to n jobs, each under a lease; bring back what is overdue and promote what is due on the
-- way, a few at a time.
-- KEYS: t_queue_ lost body meta lease
-- ARGV: caller seq n lease_ms consumer queue
-- USES: take_reply leased_jobs bulk_write number_words config counters history idempotency
-- USES: storage_payload type_check wake_workers jobs_promote jobs_paused jobs_pop jobs_id
-- TYPES: once
-- CHECKS: lease meta body lost
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns what `take_reply` describes; a ticket is id and receipt.
local reply = idempotency_replayed()
history_by = consumer

if reply then return take_reply_again(reply, storage_payload) end

type_check_key(t_queue_ .. queue, 'list')
local stopped = config.paused or jobs_paused()
reap(16)
jobs_promote(50)
local list, deadline = t_queue_ .. queue, now + tonumber(lease_ms)
local got = not stopped and jobs_pop(queue, n) or {}
-- The owner's own producers wake no worker of ours, so an idle one asks again by itself.
local reply = {#got == 0 and not stopped and string.format('%.0f', now + 500) or '0', '0',
  string.format('%.0f', deadline)}
if #got > 0 then
  local fence, bodies, lines, leases, odd = tickets(#got), {}, {}, {}, {}
  local known = redis.call('HLEN', lost) > 0
  local tail = table.concat({now_text, now_text, consumer, '- - 0'}, ' ')
  local named, times = number_words(fence, #got, '-' .. seq), '0'
  for i = 1, #got do
    local ticket, payload = named[i], got[i]
    if known then
      times = tostring(times_lost(redis.sha1hex(payload)))
      if times ~= '0' then odd[#odd + 1] = i .. ' 0 ' .. times end
    end
    bodies[2 * i - 1], bodies[2 * i] = ticket, payload
    lines[2 * i - 1], lines[2 * i] = ticket, ticket .. ' 0 ' .. times .. ' ' .. tail
    leases[2 * i - 1], leases[2 * i] = reply[3], ticket
    if history_all then history_note('taken', jobs_id(payload)) end
  end
  reply[4], reply[5], reply[6] = named[1], table.concat(named, '\n'), table.concat(odd, ' ')
  reply[7] = got
  bulk_write_fields(body, bodies)
  bulk_write_fields(meta, lines)
  bulk_write_scores(lease, leases)
  if #got == tonumber(n) and redis.call('EXISTS', list) == 1 then
    reply[2] = '1'
    wake_workers(1)
  end
end
counters_write()
history_write()
return take_reply_remember(reply)
