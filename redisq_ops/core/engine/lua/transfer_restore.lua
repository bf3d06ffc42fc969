-- Put some of the entries that a step of a move took out back, as they were. `undone`: 1 when the
-- move is undone, 0 when the target refused the entries: then they were never moved. The step's
-- list keeps only the id of an entry that was put back.
-- KEYS: undo_ op_
-- ARGV: caller seq op step undone
-- REST: id
-- USES: idempotency transitions unfinished_operations corrupt_values history audit_log record
-- USES: storage_score storage_step_ended
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns one word per row: moved | changed.
audit_log_check(op)
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply end
history_by, reply = caller, {}
local list, ids, rows, places, back, state = undo_ .. op .. ':' .. step, {}, {}, {}, 0, nil
for i = first, #ARGV do ids[#ids + 1] = ARGV[i] end
for at, row in ipairs(redis.call('LRANGE', list, 0, 499)) do
  local id = row:match('^%S+')
  rows[id], places[id] = row, at - 1
end
for k, r in ipairs(record_read(ids)) do
  local id, row = ids[k], rows[ids[k]]
  reply[k] = 'changed'
  if row and row ~= id and r.op == op and storage_score(id, 'trash') then
    local from, score, line = row:match('^%S+ (%S+) (%S+) (.+)$')
    if not tonumber(score) then
      corrupt_values_fail(list, 'row ' .. places[id] + 1, 'what an entry was')
    end
    transitions_move(id, 'trash', from, tonumber(score), record_unpack(line))
    rows[id] = id
    reply[k], state = 'moved', from
    back = back + 1
  end
end
if state then storage_step_ended(op, step, state) end
transitions_check()
for k, id in ipairs(ids) do
  -- mutant put back and not noted: redis.call('LSET', list, places[id], id) =>
  if reply[k] == 'moved' then redis.call('LSET', list, places[id], id) end
end
if back > 0 then
  if undone == '1' then
    redis.call('HINCRBY', op_ .. op, 'undone', back)
    redis.call('HINCRBY', op_ .. caller, 'done', back)
    redis.call('PEXPIRE', op_ .. caller, 2592000000)
  else
    redis.call('HINCRBY', op_ .. op, 'done', -back)
  end
  unfinished_operations_keep(op)
  history_note('op', table.concat({caller, 'undo', op, back}, '|'))
end
transitions_flush()
return idempotency_remember(reply)
