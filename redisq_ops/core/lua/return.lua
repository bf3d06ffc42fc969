-- Put some of what a step of a move took out back as it was. `undone`: 1 when the move is taken back,
-- 0 when they were refused where they were to go: then they were never moved.
-- KEYS: undo_ op_
-- ARGV: caller seq op step undone
-- REST: id
-- USES: guard moves
-- FLAGS: allow-oom
-- Returns one word per row: moved | changed.
local said, late = replayed()
if late then return superseded end
if said then return said end
by, said = caller, {}
local ids, rows, back = {}, {}, 0
for i = first, #ARGV do ids[#ids + 1] = ARGV[i] end
for _, row in ipairs(redis.call('LRANGE', undo_ .. op .. ':' .. step, 0, 499)) do
  rows[row:match('^%S+')] = row
end
for k, r in ipairs(records(ids)) do
  local id, row = ids[k], rows[ids[k]]
  said[k] = 'changed'
  if row and r.op == op and room_score(id, 'trash') then
    local from, score, line = row:match('^%S+ (%S+) (%S+) (.+)$')
    move(id, 'trash', from, tonumber(score), unpacked(line))
    said[k] = 'moved'
    back = back + 1
  end
end
if back > 0 then
  redis.call('HINCRBY', op_ .. op, undone == '1' and 'undone' or 'done', undone == '1' and back or -back)
  redis.call('PEXPIRE', op_ .. op, 2592000000)
  note('op', table.concat({caller, 'undo', op, back}, '|'))
end
flush()
return remember(said)
