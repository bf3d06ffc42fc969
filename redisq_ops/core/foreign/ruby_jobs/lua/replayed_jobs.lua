-- What a step of a bulk move put from lists into lists, from its row `behind` on: for each the list it
-- was taken from and the SHA-1 of its bytes there, the list it was put into and its bytes there.
-- Reads only.
-- KEYS: undo_
-- ARGV: op step behind
-- USES: undo_rows
-- FLAGS: no-writes
-- Returns 1 if there are more, else 0; then the four by turns.
local rows = redis.call('LRANGE', undo_ .. op .. ':' .. step, behind, behind + 100)
local said = {#rows > 100 and '1' or '0'}
for i = 1, math.min(#rows, 100) do
  local now_in, row = row_of(undo_ .. op .. ':' .. step, rows, i)
  for _, word in ipairs({row[2], redis.sha1hex(row[3]), now_in[2], now_in[3]}) do
    said[#said + 1] = word
  end
end
return said
