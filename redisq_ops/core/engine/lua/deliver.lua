-- Deliver entries: give each a receipt, a record and a lease, and build the reply of the take. The
-- deadline of the leases is `deliver_deadline`.
-- KEYS: lease meta
-- NEEDS: lease_ms seq consumer
-- USES: take_reply bulk_write number_words counters record take_rate
local deliver_deadline = string.format('%.0f', now + tonumber(lease_ms))

-- `lines`: the entries' records, nil or false for none. `contents`: payloads. `ready`: ready times, for
-- kinds that restore them after a lost delivery. The caller may change the reply's first two words.
local function deliver(ids, lines, contents, ready)
  local n = #ids
  local fence = counters_reserve('fence', n)
  local tail = '-' .. seq
  -- mutant receipts that repeat: fence => 0
  local made = number_words(fence, n, tail .. record_first_line(consumer) .. (ready and '' or '0'))
  local leases, kept, odd, k = {}, {}, {}, 0
  for i = 1, n do
    local id, line = ids[i], lines[i]
    if line then
      local r = record_unpack(line)
      -- mutant undo of what was taken: '-', now => r.op, now
      r.receipt, r.consumer, r.op, r.since = fence + i .. tail, consumer, '-', now
      if ready then r.ready = ready[i] end
      if r.first <= RECORD_REPLAYED then r.first = now end
      take_reply_tell_attempts(odd, i, r)
      line = record_pack(r)
    else
      line = ready and made[i] .. ready[i] or made[i]
    end
    leases[k + 1], leases[k + 2], kept[k + 1], kept[k + 2], k = deliver_deadline, id, id, line, k + 2
  end
  bulk_write_scores(lease, leases)
  bulk_write_fields(meta, kept)
  take_rate_count(n)
  return {'0', '0', deliver_deadline, fence + 1 .. tail, take_reply_ids(ids), table.concat(odd, ' '),
    contents}
end
