-- What an undo takes back: the entries of one step of an operation.
-- KEYS: undo_
-- NEEDS: op
-- USES: corrupt_values
-- ENTRIES: undo_{op}:{step}=list

local find, sub = string.find, string.sub

-- Returns the list that has the step, whether `move_range` made it, the state that its entries came
-- from, their ids, their scores there, and their records, a line each.
local function undo_list_read(step)
  local list = undo_ .. op .. ':' .. step
  local from, ids, scores, lines, n = nil, {}, {}, {}, 0
  local rows = redis.call('LRANGE', list, 0, 499)
  if rows[1] and rows[1]:sub(1, 1) == ' ' then -- in one piece
    local words, begins = rows[2], 1
    repeat
      local ends = find(words, ' ', begins, true)
      n = n + 1
      ids[n], begins = sub(words, begins, (ends or 0) - 1), (ends or 0) + 1
    until not ends
    n = 0
    for score in rows[4]:gmatch('%S+') do
      n = n + 1
      scores[n] = score
    end
    return list, true, rows[1]:sub(2), ids, scores, rows[3]
  end
  for k, row in ipairs(rows) do
    ids[k], from, scores[k], lines[k] = row:match('^(%S+) (%S+) (%S+) ([^\n]+)$')
    if not from then corrupt_values_fail(list, 'row ' .. k, 'what an entry was') end
  end
  return list, false, from, ids, scores, table.concat(lines, '\n')
end
