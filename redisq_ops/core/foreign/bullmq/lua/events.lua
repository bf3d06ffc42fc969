-- BullMQ's events: a stream with the latest of them.
-- Called after the writes: an event that can't be written (no id is left) is left out.
local most = {}
local function events_add(base, ...)
  if not most[base] then
    local told = redis.call('HGET', base .. 'meta', 'opts.maxLenEvents') or ''
    most[base] = told:find('^%d+$') and #told <= 15 and told or '10000'
  end
  redis.pcall('XADD', base .. 'events', 'MAXLEN', '~', most[base], '*', 'event', ...)
end
