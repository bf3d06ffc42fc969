-- Take one step of a bulk move back, as far as its entries are untouched since.
-- KEYS: undo_ op_
-- ARGV: caller seq op step to
-- USES: guard moves
-- FLAGS: allow-oom
-- Returns how many were put back and how many had been touched.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
local list = undo_ .. op .. ':' .. step
local rows, back, touched = redis.call('LRANGE', list, 0, 499), 0, 0
for _, row in ipairs(rows) do
  local id, from, score, line = row:match('^(%S+) (%S+) (%S+) (.+)$')
  local r, at = records({id})[1], to
  if to == 'restore' then
    at = r.reason ~= '-' and 'dead' or room_score(id, 'delayed') and 'delayed' or 'waiting'
  end
  if r.op == op and room_score(id, at) then
    local old = unpacked(line) -- pending again: its holder's receipt is good again too
    move(id, at, from, tonumber(score), old)
    back = back + 1
  else
    touched = touched + 1
  end
end
redis.call('DEL', list)
redis.call('HINCRBY', op_ .. op, 'undone', back)
note('op', table.concat({caller, 'undo', op, back}, '|'))
flush()
return remember({tostring(back), tostring(touched)})
