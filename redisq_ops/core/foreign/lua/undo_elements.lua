-- Put the elements that a step of `change_elements` changed back, unless one was changed since.
-- KEYS: undo_
-- ARGV: caller seq op step
-- USES: idempotency history elements corrupt_values
-- ENTRIES: undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns: ok | changed (since then, or what they were is kept no longer).
local reply = idempotency_replayed()
if reply then return reply[1] end
local list = undo_ .. op .. ':' .. step
local rows = redis.call('LRANGE', list, 0, -1)
local word = #rows > 0 and 'ok' or 'changed'
for i, packed in ipairs(rows) do
  local readable, row = pcall(cmsgpack.unpack, packed)
  if not readable or type(row) ~= 'table' or type(row[6]) ~= 'table' then
    corrupt_values_fail(list, 'row ' .. i, 'what an element was')
  end
  rows[i] = row
  if not elements_returnable(row) then word = 'changed' end
end
if word == 'ok' then
  for _, row in ipairs(rows) do elements_return(row) end
  redis.call('UNLINK', list)
  history_by = caller
  history_note('op', table.concat({caller, 'undo', op, '1'}, '|'))
  history_write()
end
idempotency_remember({word})
return word
