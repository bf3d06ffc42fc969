-- BullMQ's events: a stream with the latest of them.
-- Comes after writes: where events can't be written, as at the last possible id, there are none.
local function events_add(base, ...)
  local most = redis.call('HGET', base .. 'meta', 'opts.maxLenEvents') or ''
  if not most:find('^%d+$') or #most > 15 then most = 10000 end
  redis.pcall('XADD', base .. 'events', 'MAXLEN', '~', most, '*', 'event', ...)
end
