-- What a step of a bulk move moved, as far as it wasn't undone, from its row `behind` on: for each the
-- list it was put into and the SHA-1 of its bytes, both empty where it went elsewhere. Reads only.
-- KEYS: undo_
-- ARGV: op step behind
-- USES: undo_rows
-- FLAGS: no-writes
-- Returns 1 if there are more, else 0; then key and digest by turns.
local rows = redis.call('LRANGE', undo_ .. op .. ':' .. step, behind, behind + 100)
local said = {#rows > 100 and '1' or '0'}
for i = 1, math.min(#rows, 100) do
  local now_in = row_of(undo_ .. op .. ':' .. step, rows, i)
  local listed = now_in[1] == 'list'
  said[#said + 1] = listed and now_in[2] or ''
  said[#said + 1] = listed and redis.sha1hex(now_in[3]) or ''
end
return said
