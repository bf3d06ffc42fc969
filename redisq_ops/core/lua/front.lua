-- One step of an operator's bulk move of a whole state: the first `n` entries behind the `left` ones
-- that couldn't be moved, those that have been in it since before `high_water` (ms).
-- For states whose score is the time they were entered: from dead or trash, to waiting, trash, gone.
-- As `move` with all ids of the state, at less than half its cost: nobody has to read them first.
-- KEYS: undo_ op_
-- ARGV: caller seq from to high_water n left
-- USES: guard moves
-- FLAGS: allow-oom
-- Returns how many were moved, and how many could not be; both 0: that was all.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
local rows = redis.call('ZRANGE', zset_of[from], '-inf', high_water, 'BYSCORE',
  'LIMIT', left, n, 'WITHSCORES')
local ids, before, stuck, stays = {}, {}, 0, {failures = 0, lost = 0, first = 0}
for i = 1, #rows, 2 do ids[#ids + 1] = rows[i] end
local lines = #ids > 0 and redis.call('HMGET', meta, unpack(ids)) or {}
local leaves, enters = listed(drops, zset_of[from]), zset_of[to] and listed(adds, zset_of[to])
-- Cut from the old line, not taken apart and put together, and the time written once: half the cost.
local at, left_for, kept_for = string.format('%.0f', now), ' ' .. from .. ' ', ' ' .. caller
for k, id in ipairs(ids) do
  local line = lines[k] or packed(unpacked())
  if room_move(id, from, to, stays) == false then
    stuck = stuck + 1
  else
    leaves[#leaves + 1] = id
    before[#before + 1] = id .. left_for .. rows[2 * k] .. ' ' .. line
    if to == 'gone' then
      forgotten[#forgotten + 1] = id
    elseif to == 'waiting' then
      local began, who = line:match('^%S+ %d+ %d+ (%d+ )%d+( %S+)')
      keep(id, '- 0 0 ' .. began .. at .. who .. kept_for .. ' - 0')
    else
      local tries, who, why = line:match('^%S+( %d+ %d+ %d+ )%d+( %S+) %S+( %S+ %d+)$')
      keep(id, '-' .. tries .. at .. who .. kept_for .. why)
    end
    if enters then enters[#enters + 1], enters[#enters + 2] = at, id end
  end
end
if #before == 0 then drops, adds = {}, {} end
if #before > 0 then
  if to == 'gone' then
    count('gone', #before)
  else
    local list = undo_ .. caller .. ':' .. seq
    redis.call('RPUSH', list, unpack(before))
    redis.call('PEXPIRE', list, conf.trash_ms)
  end
  redis.call('HINCRBY', op_ .. caller, 'done', #before)
  note('op', table.concat({caller, from, to, #before}, '|'))
end
redis.call('HSET', op_ .. caller, 'steps', seq)
redis.call('PEXPIRE', op_ .. caller, 2592000000) -- also what nobody entered into the journal
flush()
return remember({tostring(#before), tostring(stuck)})
