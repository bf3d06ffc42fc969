-- A step of a move to another queue has ended: what it took out is there, or is back, and its requests
-- are held up by it no longer. Steps end in their order, so a number says which of them have.
-- KEYS: undo_ op_
-- ARGV: op step
-- USES: moves
-- FLAGS: allow-oom
-- Returns how many there were.
local rows = redis.call('LRANGE', undo_ .. op .. ':' .. step, 0, 499)
if #rows == 0 or tonumber(step) <= tonumber(redis.call('HGET', op_ .. op, 'freed') or '0') then
  return 0
end
for _, row in ipairs(rows) do
  local q = located(row:match('^%S+'))
  if q and q.moving > 0 then
    q.moving = q.moving - 1
    touch(q)
  end
end
room_ready()
redis.call('HSET', op_ .. op, 'freed', step)
flush()
return #rows
