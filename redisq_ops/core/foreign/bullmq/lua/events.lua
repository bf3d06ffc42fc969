-- BullMQ's events: a stream with the latest of them.
-- Comes after writes: where events can't be written, as at the last possible id, there are none.
local most = {}
local function events_add(base, ...)
  if not most[base] then
    local told = redis.call('HGET', base .. 'meta', 'opts.maxLenEvents') or ''
    most[base] = told:find('^%d+$') and #told <= 15 and told or '10000'
  end
  redis.pcall('XADD', base .. 'events', 'MAXLEN', '~', most[base], '*', 'event', ...)
end
