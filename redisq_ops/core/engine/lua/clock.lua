-- The latest time (ms) that a take, sweep or schedule of this queue has seen, in a field of `callers`,
-- written together with a caller's reply. It shows that the server's clock fell back: somebody set it,
-- or a failover went to a node whose clock is behind.
-- While leases and ready times are being corrected for that (clock_correction.lua), the field has more
-- words, joined by bars: latest time, by how many ms the clock fell, since when, which sorted set, the
-- score to go on from, and how many entries of that score to skip.
-- `clock_latest`: that time, at least `now`. `clock_fall`: the correction in progress, or nil.
-- `clock_word()`: the field's new value.
-- KEYS: callers
local CLOCK_FIELD = ':clock' -- no caller's name begins with a colon
local FALL_MOST = 1e12 -- ms, thirty years: a larger difference is a corrupt value, not a fall
local clock_latest, clock_fall = now, nil

do -- not a function: to set one up costs time in every call
  local word = redis.call('HGET', callers, CLOCK_FIELD)
  local seen = tonumber(word)
  if seen then
    if seen > now and seen - now < FALL_MOST then clock_latest = seen end
  elseif word then
    local at, by, since, part, score, skip = word:match('^(%d+)|(%d+)|(%d+)|([12])|([^|]+)|(%d+)$')
    if tonumber(score) and tonumber(by) < FALL_MOST then
      clock_latest = math.max(tonumber(at), now)
      clock_fall = {by = tonumber(by), since = tonumber(since), part = tonumber(part), score = score,
        skip = tonumber(skip)}
    end
  end
end

local function clock_word()
  if not clock_fall then return clock_latest == now and now_text or clock_latest end
  local f = clock_fall
  return table.concat({clock_latest, f.by, f.since, f.part, f.score, f.skip}, '|')
end
