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
local rows, ids, back = redis.call('LRANGE', list, 0, 499), {}, 0
for k, row in ipairs(rows) do ids[k] = row:match('^%S+') end
for k, r in ipairs(records(ids)) do
  local id, at = ids[k], to
  if to == 'restore' then
    at = r.reason ~= '-' and 'dead' or room_score(id, 'delayed') and 'delayed' or 'waiting'
  end
  if r.op == op and room_score(id, at) then
    local from, score, line = rows[k]:match('^%S+ (%S+) (%S+) (.+)$')
    move(id, at, from, tonumber(score), unpacked(line)) -- a holder's receipt is good again too
    back = back + 1
  end
end
redis.call('DEL', list)
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- as in `move`: a shard may have nothing of it
note('op', table.concat({caller, 'undo', op, back}, '|'))
flush()
return remember({tostring(back), tostring(#rows - back)})
