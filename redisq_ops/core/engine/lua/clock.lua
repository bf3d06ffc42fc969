-- The latest time (ms) that a take, an upkeep or a schedule of this queue saw, in a field of its own
-- beside the callers': written along with a caller's slot. It shows when the server's clock fell back
-- (set by hand, or a failover to a node whose clock is behind).
-- While leases and back-offs are brought forward (see `fallen`), it has more words, behind bars: by how
-- much, since when, which sorted set, from which score on, and how many of that score stay.
-- KEYS: callers
local CLOCK_FIELD = ':clock' -- no caller's name begins so
local FALL_MOST = 1e12 -- ms, some thirty years; more, or no number, was spoilt by hand: no fall
local clock_latest, clock_fall = now, nil

do -- not a function: each one costs every call
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
