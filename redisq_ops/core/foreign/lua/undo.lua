-- Undo a portion of a step of a bulk move: the first rows that are left of it. Entries that others
-- touched since stay as they are (hooks: `move_hooks`). Python searched the lists (`undo_places`).
-- For each row it sends the digest of the entry's bytes in a list (empty: in no list), and its
-- position from the left (empty: not found; `deep`: perhaps out of reach). Rows out of reach stay
-- in the step, behind the others. The call ends at the first row with another digest. Sent again
-- with the same `caller` and `seq` and new rows, it goes on with what is left.
-- KEYS: undo_ op_
-- ARGV: caller seq op step queue
-- REST: digest seen
-- REPLACES: undo
-- USES: idempotency counters history audit_log trash step_rows remove_from_list put_into_list
-- USES: orphans moves_fit moves_restorable moves_take_back moves_take_restored
-- USES: moves_put_back moves_done
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns, of all calls, how many were put back and how many had been touched; and how many are left.
audit_log_check(op)
audit_log_check(caller)
local reply = idempotency_replayed()
if reply and reply[3] == '0' then return reply end
history_by = caller
local key = undo_ .. op .. ':' .. step
local before, gone = reply and tonumber(reply[1]) or 0, reply and tonumber(reply[2]) or 0
local rows = #ARGV < first and {} or redis.call('LRANGE', key, 0, (#ARGV - first - 1) / width)
local entries, back, left, touched, through = {}, {}, {}, 0, 0
for i = 1, #rows do
  local to, e, list, digest = step_rows_read(key, rows, i)
  if to == 'trash' then
    local label, by_op, kept = e.label, trash_get(e.label)
    e = by_op == op and kept or nil
    if e then e.label = label end
  end
  if e then moves_fit(e) end
  entries[i] = {to, e, list ~= '' and list or nil, digest}
end
budget.all = 3 * REACH
for i = 1, #rows do
  local to, e, list, digest = unpack(entries[i], 1, 4)
  local at = first + (i - 1) * width
  local seen = ARGV[at + 1]
  if digest ~= ARGV[at] then break end
  through = i
  local ok, why
  if list and seen == 'deep' then
    why = seen
  elseif e and not (list and seen == '')
    and (to == 'restore' or (e.orphan and orphans_restorable or moves_restorable)(e)) then
    if to == 'trash' then
      trash_drop(e.label)
      ok = true
    elseif to == 'restore' then
      e.seen = tonumber(seen) or e.seen
      ok, why = (e.orphan and orphans_take_out or moves_take_restored)(e, list)
    else
      ok, why = moves_take_back(e, to, list, tonumber(seen))
    end
  end
  if ok then
    -- mutant undone in disorder: back[#back + 1] = entries[i] => table.insert(back, 1, entries[i])
    back[#back + 1] = entries[i]
  elseif why == 'deep' or why == 'unsure' then
    left[#left + 1] = rows[i]
  else
    touched = touched + 1
  end
end
sweep_marks()
for _, entry in ipairs(back) do
  local to, e = entry[1], entry[2]
  if to == 'restore' then
    trash_put(e.op, e, e.since)
  else
    (e.orphan and orphans_put_back or moves_put_back)(e)
  end
end
turn_lists_back()
moves_done()
if #left > 0 then redis.call('RPUSH', key, unpack(left)) end -- first: the list keeps its expiry time
if through > 0 then redis.call('LTRIM', key, through, -1) end
if #back > 0 then
  redis.call('HINCRBY', op_ .. op, 'undone', #back)
  redis.call('HINCRBY', op_ .. caller, 'done', #back)
  redis.call('PEXPIRE', op_ .. caller, 2592000000)
  history_note('op', table.concat({caller, 'undo', op, #back}, '|'))
end
counters_write()
history_write()
return idempotency_remember({tostring(before + #back), tostring(gone + touched),
  tostring(redis.call('LLEN', key))})
