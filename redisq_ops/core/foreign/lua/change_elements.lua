-- One step of an operation: give a few elements of the owner's keys other values, if every element has
-- the value that was read. `note`: what the history says of it.
-- KEYS: undo_ op_
-- ARGV: caller seq note
-- REST: kind key member before after
-- USES: idempotency config history audit_log elements
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns: ok | changed (an element has another value).
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply[1] end
local rows, word = {}, 'ok'
for i = first, #ARGV, width do
  local row = {ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]}
  if not elements_hold(row, row[4]) then word = 'changed' end
  rows[#rows + 1] = row
end
if word == 'ok' then
  local kept = {}
  for _, row in ipairs(rows) do
    if row[4] ~= row[5] then
      row[6] = elements_kept(row)
      kept[#kept + 1] = cmsgpack.pack(row)
      elements_set(row, row[5])
    end
  end
  local list = undo_ .. caller .. ':' .. seq
  redis.call('RPUSH', list, unpack(kept))
  redis.call('PEXPIRE', list, config.trash_ms)
  redis.call('HSET', op_ .. caller, 'steps', seq)
  redis.call('PEXPIRE', op_ .. caller, 2592000000) -- even if nobody has written the operation down
  history_by = caller
  history_note('op', caller .. '|' .. note)
  history_write()
end
idempotency_remember({word})
return word
