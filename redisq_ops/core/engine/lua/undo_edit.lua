-- Take one step of an edit back, as far as its entries are untouched since.
-- KEYS: undo_ op_
-- ARGV: caller seq op step
-- USES: idempotency transitions content
-- FLAGS: allow-oom
-- Returns how many have their payload again, how many had been touched, and the ids of these.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
local ROW = '^(%S+) (%S+) (%S+ %d+ %d+ %d+ %d+ %S+ %S+ %S+ %d+) (.*)$'
local list = undo_ .. op .. ':' .. step
local rows, ids, back, left = redis.call('LRANGE', list, 0, 499), {}, 0, {'', ''}
for k, row in ipairs(rows) do
  ids[k] = row:match(ROW)
  if not ids[k] then spoilt(list, 'row ' .. k, 'what an entry was') end
end
for k, r in ipairs(records(ids)) do
  local id, state, line, payload = rows[k]:match(ROW)
  if r.op == op and room_score(id, state) and content(id) then
    r.op = unpacked(line).op -- the rest is as it was, or newer: it may have gone and been put back
    retain(id, r)
    rewrite(id, payload)
    back = back + 1
  else
    left[#left + 1] = id
  end
end
redis.call('DEL', list)
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- as in `undo`
redis.call('HINCRBY', op_ .. caller, 'done', back)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
note('op', table.concat({caller, 'undo', op, back}, '|'))
flush()
left[1], left[2] = tostring(back), tostring(#rows - back)
return remember(left)
