-- What an undo takes back: the entries of one step of an operation.
-- KEYS: undo_
-- NEEDS: op
-- USES: corrupt_values
-- ENTRIES: undo_{op}:{step}=list

-- Returns the list that has the step, whether `move_range` made it, and of each entry its id, the state
-- it came from, its score there, and its record.
local function undo_list_read(step)
  local list = undo_ .. op .. ':' .. step
  local ids, froms, scores, lines = {}, {}, {}, {}
  local rows = redis.call('LRANGE', list, 0, 499)
  local range = rows[1] and rows[1]:sub(1, 1) == ' ' -- in one piece
  if range then
    local from, n, m = rows[1]:sub(2), 0, 0
    for id in rows[2]:gmatch('%S+') do
      n = n + 1
      ids[n], froms[n] = id, from
    end
    n = 0
    for line in rows[3]:gmatch('[^\n]+') do
      n = n + 1
      lines[n] = line
    end
    for score in rows[4]:gmatch('%S+') do
      m = m + 1
      scores[m] = score
    end
  else
    for k, row in ipairs(rows) do
      ids[k], froms[k], scores[k], lines[k] = row:match('^(%S+) (%S+) (%S+) (.+)$')
      if not ids[k] then corrupt_values_fail(list, 'row ' .. k, 'what an entry was') end
    end
  end
  return list, range, ids, froms, scores, lines
end
