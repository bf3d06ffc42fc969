-- After the server's clock fell back: leases and back-offs would last longer by as much. Some of them
-- at a time are brought forward by that, so that each ends when it would have; and what was due is due.
-- Of ready times to come those that somebody chose stay. What was leased or put back since the fall was
-- noticed is right already. A lease that is longer than the fall, and was renewed in between, may end
-- early.
-- USES: clock record
local FELL_MS = 1000 -- less is no fall

-- `zsets`: leases, and what is delayed where that is ours; whether all of that is `relative`. `put` is
-- told zset, id, new score, record.
-- Returns how many of at most `most` were looked at.
local function after_fall(zsets, relative, most, put)
  if not fall then
    if latest - now <= FELL_MS then return 0 end
    -- A lease that ends before `latest` was renewed since, or is overdue as it is.
    local from = string.format('%.0f', latest + 1)
    fall = {by = latest - now, since = now, part = 1, score = from, skip = 0}
    latest = now
  end
  local looked = 0
  if not zsets[fall.part] then fall = nil end
  while fall and looked < most do
    local zset, room = zsets[fall.part], most - looked
    local rows = redis.call('ZRANGE', zset, fall.score, '+inf', 'BYSCORE', 'LIMIT', fall.skip, room,
      'WITHSCORES')
    local ids = {}
    for i = 1, #rows, 2 do ids[#ids + 1] = rows[i] end
    for k, r in ipairs(records(ids)) do
      local score = rows[2 * k]
      local recent = r.since >= fall.since and r.since <= now
      local comes = fall.part == 1 or relative or tonumber(score) <= fall.since + fall.by
        or r.op == '-' and r.failures > 0 and r.since > 0
      if score ~= fall.score then fall.score, fall.skip = score, 0 end
      if recent or not comes then
        fall.skip = fall.skip + 1
      else
        if r.since > now then r.since = math.max(1, r.since - fall.by) end
        put(zset, ids[k], tonumber(score) - fall.by, r)
      end
    end
    looked = looked + #ids
    if #ids < room then
      local following = fall.part + 1
      fall.part, fall.score, fall.skip = following, string.format('%.0f', fall.since + 1), 0
      if not zsets[following] then fall = nil end
    end
  end
  return looked
end
