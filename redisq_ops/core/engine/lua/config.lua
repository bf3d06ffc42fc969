-- The queue's settings, flags and shards' layout, with the release's defaults where a field is absent,
-- or is no number where one belongs. All of them at once: there are few, and to ask for them by name
-- costs twice as much.
-- KEYS: cfg
-- FIRST: HGETALL
local config = setmetatable({}, {__index = DEFAULT})
do
  local got = redis.call('HGETALL', cfg)
  for i = 1, #got, 2 do
    local name, value = got[i], got[i + 1]
    if type(DEFAULT[name]) == 'number' then
      local number = #value < 17 and (value == '0' or value:find('^[1-9]%d*$'))
      value = number and tonumber(value) or nil
    end
    config[name] = value
  end
end
