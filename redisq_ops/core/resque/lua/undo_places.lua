-- What a step of a bulk move put into lists, as far as it wasn't undone: for each the list and the
-- SHA-1 of its bytes. Reads only.
-- KEYS: undo_
-- ARGV: op step
-- FLAGS: no-writes
-- Returns key and digest by turns.
local said = {}
for _, text in ipairs(redis.call('LRANGE', undo_ .. op .. ':' .. step, 0, 499)) do
  local now_in = unpack(cmsgpack.unpack(text))
  if now_in[1] == 'list' then
    said[#said + 1] = now_in[2]
    said[#said + 1] = redis.sha1hex(now_in[3])
  end
end
return said
