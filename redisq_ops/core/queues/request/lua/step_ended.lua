-- A step of a move to another queue has ended: all it took out of `state` is there, or back, and their
-- requests are held up by it no longer. Steps end in their order, so a number says which of them have.
-- KEYS: undo_ op_
-- USES: request_records type_check_hook
local function ended(op, step, state)
  local rows = state ~= 'dead' and redis.call('LRANGE', undo_ .. op .. ':' .. step, 0, 499) or {}
  local upto = #rows > 0 and tonumber(redis.call('HGET', op_ .. op, 'freed') or '0')
  if #rows == 0 or tonumber(step) <= upto then return end
  for _, row in ipairs(rows) do
    local q = located(row:match('^%S+'))
    if q and q.moving > 0 then
      q.moving = q.moving - 1
      touch(q)
    end
  end
  room_ready()
  redis.call('HSET', op_ .. op, 'freed', step)
end
