-- Undo one step of a bulk move, as far as its entries are unchanged since; with `gather` also steps
-- before it, until about `MOST` entries are put back, or more requests than a call should touch.
-- KEYS: op_
-- ARGV: caller seq op step to gather
-- USES: idempotency transitions undo_list undo_entries history audit_log
-- USES: storage_check_range
-- TYPES: first
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many were put back, how many had changed, which step is next, and the ids of those that
-- had changed.
local MOST, LISTS = 256, 64
audit_log_check(op)
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply end
history_by = caller
gather, step = gather == '1', tonumber(step)
local lists, seen, back, left = {}, 0, 0, {'', '', ''}
local range, n, full
repeat
  local list, put, from, ids, scores, lines
  list, range, from, ids, scores, lines = undo_list_read(step)
  n = #ids
  if n > 0 and not range and #lists > 0 then break end -- a step of `move`, in a call of its own
  lists[#lists + 1], seen, step = list, seen + n, step - 1
  if n > 0 then
    put, full = undo_entries_back(from, ids, scores, lines, left)
    back = back + put
  end
until step < 1 or not gather or n > 0 and not range or full or seen + n > MOST or #lists == LISTS
storage_check_range()
transitions_check()
redis.call('DEL', unpack(lists))
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- a shard may lack either entry in the audit log
redis.call('HINCRBY', op_ .. caller, 'done', back)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
history_note('op', table.concat({caller, 'undo', op, back}, '|'))
transitions_flush()
left[1], left[2], left[3] = tostring(back), tostring(seen - back), tostring(step)
return idempotency_remember(left)
