-- A take that is sent again answers as before, but for entries that are not its own any more. Kept for
-- that: when to look again, whether there is more, the deadline, the first fence, then the ids.
-- USES: guard record
local function taken_before(said, contents)
  local ids, reply = {}, {said[1], said[2], said[3]}
  for i = 5, #said do ids[#ids + 1] = said[i] end
  for i, r in ipairs(records(ids)) do
    if r.receipt == (said[4] + i) .. '-' .. seq then
      for _, word in ipairs({ids[i], r.receipt, tostring(r.failures), tostring(r.lost),
        redis.call('HGET', contents, ids[i])}) do reply[#reply + 1] = word end
    end
  end
  return reply
end

local function remember_taken(reply, fence, ids)
  remember({reply[1], reply[2], reply[3], fence, table.concat(ids, ' ')})
  return reply
end
