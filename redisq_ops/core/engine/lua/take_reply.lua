-- The reply of a take: when to look again (ms; 0: no need), 1 if there may be more now, the deadline
-- (ms), and if anything was taken the first receipt, the ids in one word, `place failures lost` of the
-- entries that had any, in one word, and the payloads. After the deadline, in its word, the ids that
-- this take found dead, percent-quoted, each after a comma.
-- A take that is sent again gets the same reply, with a star for each id that is no longer this
-- delivery's. The reply's first five words are stored for that. Ids that another program wrote may
-- contain any byte; then all ids are quoted, after a leading blank.
-- NEEDS: seq
-- USES: idempotency record clock
local function take_reply_quoted(id)
  return (id:gsub('[^%w]', function(c) return string.format('%%%02X', c:byte()) end))
end

local function take_reply_ids(ids)
  local word = table.concat(ids, '\n')
  if not string.find(word, ' ', 1, true) and not string.find(word, '*', 1, true) then return word end
  local quoted = {}
  for i = 1, #ids do quoted[i] = take_reply_quoted(ids[i]) end
  return ' ' .. table.concat(quoted, '\n')
end

local function take_reply_tell_attempts(odd, place, r)
  if r.failures > 0 or r.lost > 0 then odd[#odd + 1] = place .. ' ' .. r.failures .. ' ' .. r.lost end
end

-- The reply of a take that is sent again. `stored`: its first words. `read(id)`: an entry's payload or
-- a false value; `lost` replaces a missing payload, and without it such an entry counts as gone.
local function take_reply_again(stored, read, lost)
  local reply, ids = {stored[1], stored[2], stored[3]}, {}
  for i = 5, #stored do ids[#ids + 1] = stored[i] end
  if #ids == 0 then return reply end
  local fence, odd, contents = stored[4]:match('^%d+') - 1, {}, {}
  for i, r in ipairs(record_read(ids)) do
    local payload = r.receipt == fence + i .. '-' .. seq and (read(ids[i]) or lost)
    if payload then
      contents[#contents + 1] = payload
      take_reply_tell_attempts(odd, #contents, r)
    else
      ids[i] = '*'
    end
  end
  reply[4], reply[5], reply[6] = stored[4], table.concat(ids, '\n'), table.concat(odd, ' ')
  reply[7] = contents
  return reply
end

local function take_reply_remember(reply, dead)
  for _, id in ipairs(dead or {}) do reply[3] = reply[3] .. ',' .. take_reply_quoted(id) end
  idempotency_remember({reply[1], reply[2], reply[3], reply[4], reply[5]}, CLOCK_FIELD, clock_word())
  return reply
end
