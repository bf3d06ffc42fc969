-- Give the entries of one step of an edit their bytes back, unless they are elsewhere by now, or have
-- others. An entry that may be deep inside a list stays in the step until Python has searched the list:
-- then it sends for each row that is left the digest of the entry's bytes (empty: in no list), and
-- its position from the left (empty: it isn't there). Sent again with the same `caller` and `seq`
-- and these rows, it goes on with what is left.
-- KEYS: undo_ op_
-- ARGV: caller seq op step
-- REST: digest seen
-- REPLACES: undo_edit
-- USES: idempotency history audit_log corrupt_values edited step_rows remove_from_list
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns, of all calls, how many have their bytes again and how many had changed; how many are left;
-- and the ids of those that had changed.
audit_log_check(op)
audit_log_check(caller)
local reply = idempotency_replayed()
if reply and reply[3] == '0' then return reply end
local list = undo_ .. op .. ':' .. step
local rows, entries, back, left = redis.call('LRANGE', list, 0, -1), {}, 0, {}
for i = 1, #rows do
  local _, e, key, digest = step_rows_read(list, rows, i)
  if type(e.parts) ~= 'table' then corrupt_values_fail(list, 'row ' .. i, 'what an entry was') end
  edited_fit(e)
  local at = first + (i - 1) * width
  if key ~= '' and ARGV[at] == digest then e.hint = ARGV[at + 1] end
  e.seen = tonumber(e.hint) or e.seen
  entries[i] = e
end
local said = reply or {'0', '0', '0'}
for i = #entries, 1, -1 do
  local e = entries[i]
  -- mutant an edit undone though touched: edited_holds(e) => edited_holds(e) or true
  if edited_holds(e) then
    edited_write(e)
    back = back + 1
  elseif e.kind == 'list' and not e.at and e.hint ~= ''
    and (e.why or redis.call('LLEN', e.key) > 2 * REACH) then
    table.insert(left, 1, rows[i])
  else
    said[#said + 1] = e.id
  end
end
if #left > 0 then redis.call('RPUSH', list, unpack(left)) end -- first: the list keeps its expiry time
if #rows > 0 then redis.call('LTRIM', list, #rows, -1) end
said[1], said[3] = tostring(tonumber(said[1]) + back), tostring(#left)
said[2] = tostring(#said - 3)
if back > 0 or not reply then
  redis.call('HINCRBY', op_ .. op, 'undone', back)
  redis.call('HINCRBY', op_ .. caller, 'done', back)
  redis.call('PEXPIRE', op_ .. caller, 2592000000)
  history_by = caller
  history_note('op', table.concat({caller, 'undo', op, back}, '|'))
  history_write()
end
return idempotency_remember(said)
