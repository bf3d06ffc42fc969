-- Hand entries out: a receipt each, a record line, a lease, and a row of the take's reply.
-- The script using this names ARGV `caller`, `seq`, `consumer` and `lease_ms`.
-- USES: taken large numbers
local deadline = string.format('%.0f', now + tonumber(lease_ms))

-- `lines` are the entries' records where they have one, `ready` their ready times where that counts.
-- Returns the reply, whose first two words are the caller's to change, and the fence before theirs.
local function deliver(ids, lines, contents, ready)
  local n, at = #ids, 3
  local reply = {'0', '0', deadline}
  local fence = redis.call('HINCRBY', stat, 'fence', n) - n
  local receipts, fresh = numbered(fence, n, '-' .. seq), first_line(consumer)
  local usual, leases, kept, k = fresh .. '0', {}, {}, 0
  for i = 1, n do
    local id, receipt, failures, lost = ids[i], receipts[i], '0', '0'
    local line = lines[i]
    if line then
      local r = unpacked(line)
      r.receipt, r.consumer, r.op, r.since = receipt, consumer, '-', now
      if ready then r.ready = ready[i] end
      if r.first == 0 then r.first = now end
      failures, lost = tostring(r.failures), tostring(r.lost)
      line = packed(r)
    else
      line = receipt .. (ready and fresh .. ready[i] or usual)
    end
    leases[k + 1], leases[k + 2], kept[k + 1], kept[k + 2], k = deadline, id, id, line, k + 2
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5] =
      id, receipt, failures, lost, contents[i]
    at = at + 5
  end
  put_scores(lease, leases)
  put_fields(meta, kept)
  return reply, fence
end
