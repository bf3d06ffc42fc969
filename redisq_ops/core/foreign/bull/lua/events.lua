-- Bull's events: messages to those who listen now.
-- REPLACES: events
-- Called after the writes: a user without the right to publish still changes the job. No worker
-- needs these events. Bull publishes nothing when a job is removed.
local function events_add(base, event, _, id)
  local heard = {
    waiting = base .. 'waiting@redisq', paused = base .. 'paused', resumed = base .. 'resumed',
  }
  if heard[event] then redis.pcall('PUBLISH', heard[event], id or event) end
end
