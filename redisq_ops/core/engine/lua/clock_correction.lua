-- After the server's clock fell back, leases and back-offs would last longer by as much. This brings
-- them forward a few at a time, so that each ends when it should have. Ready times that a person chose,
-- and that are still to come, stay; so does what was leased or put back after the fall. A lease that is
-- longer than the fall and was renewed in between may end early.
-- USES: clock record
local FELL_MS = 1000 -- a smaller difference is not a fall

-- `zsets`: the sorted sets to correct, leases first. `relative`: whether all delayed times are counted
-- from when they were set. `put(zset, id, score, record)` stores a corrected entry.
-- Returns how many entries were looked at, `most` or fewer.
local function clock_correction(zsets, relative, most, put)
  if not clock_fall then
    if clock_latest - now <= FELL_MS then return 0 end
    -- A lease that ends before `clock_latest` was renewed after the fall, or is overdue anyway.
    local from = string.format('%.0f', clock_latest + 1)
    clock_fall = {by = clock_latest - now, since = now, part = 1, score = from, skip = 0}
    clock_latest = now
  end
  local looked = 0
  if not zsets[clock_fall.part] then clock_fall = nil end
  while clock_fall and looked < most do
    local zset, room = zsets[clock_fall.part], most - looked
    local rows = redis.call('ZRANGE', zset, clock_fall.score, '+inf', 'BYSCORE', 'LIMIT',
      clock_fall.skip, room, 'WITHSCORES')
    local ids = {}
    for i = 1, #rows, 2 do ids[#ids + 1] = rows[i] end
    for k, r in ipairs(record_read(ids)) do
      local score = rows[2 * k]
      local recent = r.since >= clock_fall.since and r.since <= now
      local comes = clock_fall.part == 1 or relative
        or tonumber(score) <= clock_fall.since + clock_fall.by
        or r.op == '-' and r.failures > 0 and r.since > 0
      if score ~= clock_fall.score then clock_fall.score, clock_fall.skip = score, 0 end
      if recent or not comes then
        clock_fall.skip = clock_fall.skip + 1
      else
        if r.since > now then r.since = math.max(1, r.since - clock_fall.by) end
        put(zset, ids[k], tonumber(score) - clock_fall.by, r)
      end
    end
    looked = looked + #ids
    if #ids < room then
      local following = clock_fall.part + 1
      clock_fall.part, clock_fall.skip = following, 0
      clock_fall.score = string.format('%.0f', clock_fall.since + 1)
      if not zsets[following] then clock_fall = nil end
    end
  end
  return looked
end
