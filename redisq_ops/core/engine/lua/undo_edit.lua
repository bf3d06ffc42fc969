-- Undo one step of an edit, as far as its entries are unchanged since.
-- KEYS: undo_ op_
-- ARGV: caller seq op step
-- USES: idempotency transitions corrupt_values history audit_log record storage_payload
-- USES: storage_score storage_set_payload write_buffer
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many have their payload again, how many had changed, and the ids of these.
audit_log_check(op)
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply end
history_by = caller
local ROW = '^(%S+) (%S+) (%S+ %d+ %d+ %d+ %d+ %S+ %S+ %S+ %d+) (.*)$'
local list = undo_ .. op .. ':' .. step
local rows, ids, back, left = redis.call('LRANGE', list, 0, 499), {}, 0, {'', ''}
for k, row in ipairs(rows) do
  ids[k] = row:match(ROW)
  if not ids[k] then corrupt_values_fail(list, 'row ' .. k, 'what an entry was') end
end
for k, r in ipairs(record_read(ids)) do
  local id, state, line, payload = rows[k]:match(ROW)
  -- mutant an edit undone though touched: r.op == op and =>
  if r.op == op and storage_score(id, state) and storage_payload(id) then
    r.op = record_unpack(line).op -- the rest may be newer
    -- mutant records of an edit that was undone: retain(id, r) => record(id, record_pack(r))
    write_buffer_retain(id, r)
    storage_set_payload(id, payload)
    back = back + 1
  else
    left[#left + 1] = id
  end
end
redis.call('DEL', list)
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- as in `undo`
redis.call('HINCRBY', op_ .. caller, 'done', back)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
history_note('op', table.concat({caller, 'undo', op, back}, '|'))
transitions_flush()
left[1], left[2] = tostring(back), tostring(#rows - back)
return idempotency_remember(left)
