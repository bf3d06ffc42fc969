-- Take a step of a bulk move back, as far as its entries are where it put them (hooks: see `owner`). The
-- last one first, so that neighbours in a list are there again when the one before them comes back.
-- KEYS: undo_ op_
-- ARGV: caller seq op step
-- REPLACES: undo
-- USES: idempotency corrupt_values counters history operation_journal owner trash remove_from_list
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many were put back and how many had been touched; and how many lie too deep in a list to
-- be looked for now, if any do: they stay in the step.
operation_journal_check(op)
operation_journal_check(caller)
local said, late = idempotency_replayed()
if late then return idempotency_superseded end
if said then return said end
history_by = caller
local list = undo_ .. op .. ':' .. step
local rows, back, left, touched = redis.call('LRANGE', list, 0, -1), {}, {}, 0
for i, text in ipairs(rows) do
  local readable, row = pcall(cmsgpack.unpack, text)
  if not readable or type(row) ~= 'table' or type(row[2]) ~= 'table' then
    corrupt_values_fail(list, 'row ' .. i, 'what an entry was')
  end
  local way, e = row[1], row[2]
  if way == 'trash' then
    local by_op, kept = trash_get(e.label)
    e = by_op == op and kept or nil
    if e then e.label = row[2].label end
  end
  if e then owner_fit(e) end
  rows[i] = {way, e, text}
end
for i = #rows, 1, -1 do
  local way, e = rows[i][1], rows[i][2]
  local ok, why
  if way == 'trash' then
    ok = e and owner_restorable(e)
    if ok then trash_drop(e.label) end
  elseif way == 'restore' then
    ok, why = owner_take_out(e, 'trash')
  elseif owner_restorable(e) then
    ok, why = owner_take_back(e)
  end
  if ok then
    back[#back + 1] = rows[i]
  elseif why == 'deep' or why == 'unsure' then
    table.insert(left, 1, rows[i][3])
  else
    touched = touched + 1
  end
end
sweep_marks()
for _, row in ipairs(back) do
  local way, e = row[1], row[2]
  if way == 'restore' then trash_put(e.op, e, e.shown, e.since) else owner_put_back(e) end
end
if #left > 0 then redis.call('RPUSH', list, unpack(left)) end -- first: the list's time stays
if #rows > 0 then redis.call('LTRIM', list, #rows, -1) end
if #back > 0 then
  redis.call('HINCRBY', op_ .. op, 'undone', #back)
  redis.call('HINCRBY', op_ .. caller, 'done', #back)
  redis.call('PEXPIRE', op_ .. caller, 2592000000)
  history_note('op', table.concat({caller, 'undo', op, #back}, '|'))
end
counters_write()
history_write()
return idempotency_remember({tostring(#back), tostring(touched), #left > 0 and tostring(#left) or nil})
