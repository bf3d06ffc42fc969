-- Settle deliveries. `text` is the record of a failed job in the owner's format, up to the value of its
-- last field, a time that is added here (`unit`: s, ms or date); without a unit it is complete. A ticket
-- that is no longer held is stale.
-- KEYS: body lost
-- ARGV: caller seq consumer told queue
-- REST: outcome text unit delay
-- REPLACES: settle
-- USES: idempotency parse_settlements leased_jobs counters history job_counters job_lists
-- USES: wake_workers jobs_prepend jobs_retry jobs_bury
-- TYPES: once
-- CHECKS: lease meta lost
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns one word for each, or one for all: done | retry | dead | released | stale.
local reply = idempotency_replayed()
if reply then return reply end
history_by = consumer
reply = {}
local ids, receipts, rows, number = parse_settlements()
if #ARGV >= first then fit_lists() end
local settled, ended, back, acked, bad, gone = {}, {}, {}, 0, 0, 0
local payloads = redis.call('HMGET', body, unpack(receipts))
local known = redis.call('HLEN', lost) > 0
for k = 1, number do
  -- mutant settle without fence: payloads[k] => payloads[k] or '{}'
  local id, ticket, payload, outcome, text, unit, wait = ids[k], receipts[k], payloads[k], 'ack'
  if rows[k] then
    local at = first + (rows[k] - 1) * width
    outcome, text, unit, wait = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  end
  -- mutant settled twice in a batch: or settled[ticket] =>
  if not payload or settled[ticket] then
    reply[k] = 'stale'
  else
    settled[ticket] = true
    gone = gone + 1
    ended[gone] = ticket
    if outcome == 'release' then
      back[#back + 1] = payload
      reply[k] = 'released'
    else
      -- mutant lost workers counted for ever: known => false
      if known then redis.call('HDEL', lost, redis.sha1hex(payload)) end
      if unit and unit ~= '' then text = text .. stamp(unit) .. '}' end
      if outcome == 'ack' then
        acked = acked + 1
        reply[k] = 'done'
        if history_all then history_note('done', id) end
      elseif outcome == 'retry' then
        jobs_retry(text, now + tonumber(wait))
        bad = bad + 1
        reply[k] = 'retry'
        history_note('failed', id .. '|' .. consumer)
      else -- rejected, failed for the last time, or `discarded`: its own record says not to keep it
        if outcome ~= 'discarded' then jobs_bury(queue, text) end
        bad = bad + 1
        reply[k] = 'dead'
        history_note('dead', id .. '|' .. outcome)
      end
    end
  end
end
let_go(ended)
-- mutant what was released comes back in disorder: #back, 1, -1 => 1, #back
-- mutant released to the end: jobs_prepend => jobs_append
for i = #back, 1, -1 do jobs_prepend(queue, back[i]) end
if #back > 0 then wake_workers(#back) end
counters_add('done', acked)
count_jobs(acked + bad, bad)
counters_write()
history_write()
return idempotency_remember(acked == number and {'done'} or reply)
