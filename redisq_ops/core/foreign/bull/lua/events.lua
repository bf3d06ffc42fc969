-- Bull's events: messages to those who listen now.
-- REPLACES: events
-- Comes after writes: who hasn't the right to publish changes a job all the same. No worker needs them.
-- Of a job that is removed, Bull says nothing.
local function events_add(base, event, _, id)
  if event == 'waiting' then redis.pcall('PUBLISH', base .. 'waiting@redisq', id) end
end
