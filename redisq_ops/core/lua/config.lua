-- The queue's settings, flags and shards' layout, with the release's defaults where a field is absent,
-- or is no number where one belongs. All of them at once: there are few, and to ask for them by name
-- costs twice as much.
-- KEYS: cfg
-- USES: spoilt
local conf = setmetatable({}, {__index = DEFAULT})
do
  local got = redis.call('HGETALL', cfg)
  for i = 1, #got, 2 do
    local name, value = got[i], got[i + 1]
    if type(DEFAULT[name]) == 'number' then
      value = is_whole(value) and tonumber(value) >= 0 and tonumber(value) or nil
    end
    conf[name] = value
  end
end
