-- Read what a step of a bulk move put from lists into lists, from row `behind` of its undo list on.
-- KEYS: undo_
-- ARGV: op step behind
-- USES: step_rows
-- FLAGS: no-writes
-- Returns 1 if there are more rows, else 0; then of each the list a job was taken from and the SHA-1 of
-- its bytes there, the list it was put into and its bytes there.
local key = undo_ .. op .. ':' .. step
local rows = redis.call('LRANGE', key, behind, behind + 100)
local reply = {#rows > 100 and '1' or '0'}
for i = 1, math.min(#rows, 100) do
  local _, e, list = step_rows_read(key, rows, i)
  for _, word in ipairs({e.key, redis.sha1hex(e.member), list, e.put or e.member}) do
    reply[#reply + 1] = word
  end
end
return reply
