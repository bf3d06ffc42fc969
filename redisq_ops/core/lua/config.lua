-- The queue's settings, with the release's defaults where a field is absent.
-- KEYS: cfg
local conf = {}
do
  local names = {'paused', 'closed', 'history', 'history_max', 'max_failures', 'max_lost',
    'max_waiting', 'aging', 'keep_ms', 'trash_ms'}
  local got = redis.call('HMGET', cfg, unpack(names))
  for i, name in ipairs(names) do
    conf[name] = got[i] or DEFAULT[name]
    if name ~= 'history' and name ~= 'paused' and name ~= 'closed' then
      conf[name] = tonumber(conf[name]) or DEFAULT[name]
    end
  end
end
