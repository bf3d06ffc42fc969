-- Read where the entries of a step went, from row `behind` of its undo list on.
-- KEYS: undo_
-- ARGV: op step behind
-- USES: step_rows
-- FLAGS: no-writes
-- Returns 1 if there are more rows, else 0; then of each row the list and the SHA-1 of the entry's bytes
-- in it, both empty if it isn't in a list.
local key = undo_ .. op .. ':' .. step
local rows = redis.call('LRANGE', key, behind, behind + 100)
local reply = {#rows > 100 and '1' or '0'}
for i = 1, math.min(#rows, 100) do
  local _, _, list, digest = step_rows_read(key, rows, i)
  reply[2 * i], reply[2 * i + 1] = list, digest
end
return reply
