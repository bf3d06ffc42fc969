-- What an undo takes back: the entries of one step of an operation, and of a move of a whole state also
-- those of the steps before it.
-- KEYS: undo_
-- NEEDS: op step most
-- USES: corrupt_values
-- ENTRIES: undo_{op}:{step}=list

-- Up to `most` steps, until there are about `enough` entries. Returns the lists that have the steps, and
-- of each entry its id, the state it came from, its score there, and its record.
local function undo_steps_read(enough)
  local lists, ids, froms, scores, lines, size = {}, {}, {}, {}, {}, 0
  repeat
    local list = undo_ .. op .. ':' .. (step - #lists)
    local rows = redis.call('LRANGE', list, 0, 499)
    local range = rows[1] and rows[1]:sub(1, 1) == ' ' -- a step of `move_range`, in one piece
    if #lists > 0 and rows[1] and not range then break end
    lists[#lists + 1], size = list, #ids
    if range then
      local from, n, m = rows[1]:sub(2), #ids, #ids
      for id in rows[2]:gmatch('%S+') do
        ids[#ids + 1], froms[#froms + 1] = id, from
      end
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
    size = #ids - size
  until not range or #lists >= tonumber(most) or #ids + size > enough
  return lists, ids, froms, scores, lines
end
