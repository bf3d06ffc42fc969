-- Give the entries of one step of an edit their bytes back, unless they are elsewhere by now, or have
-- others.
-- KEYS: undo_ op_
-- ARGV: caller seq op step
-- REPLACES: undo_edit
-- USES: idempotency history audit_log corrupt_values edited
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many have their bytes again, how many had changed, and the ids of these.
audit_log_check(op)
audit_log_check(caller)
local reply, late = idempotency_replayed()
if late then return idempotency_superseded end
if reply then return reply end
local list = undo_ .. op .. ':' .. step
local entries, back, left = redis.call('LRANGE', list, 0, -1), 0, {'', ''}
for i, packed in ipairs(entries) do
  local readable, e = pcall(cmsgpack.unpack, packed)
  if not readable or type(e) ~= 'table' or type(e.parts) ~= 'table' then
    corrupt_values_fail(list, 'row ' .. i, 'what an entry was')
  end
  edited_fit(e)
  entries[i] = e
end
for i = #entries, 1, -1 do
  local e = entries[i]
  -- mutant an edit undone though touched: edited_holds(e) => edited_holds(e) or true
  if edited_holds(e) then
    edited_write(e)
    back = back + 1
  else
    left[#left + 1] = e.id
  end
end
redis.call('UNLINK', list)
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('HINCRBY', op_ .. caller, 'done', back)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
history_by = caller
history_note('op', table.concat({caller, 'undo', op, back}, '|'))
history_write()
left[1], left[2] = tostring(back), tostring(#entries - back)
return idempotency_remember(left)
