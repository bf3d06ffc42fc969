-- `config`: the queue's settings, flags and shard layout, with the release's default where a field is
-- absent, or isn't the number it has to be. It reads all fields at once: there are few, and asking for
-- them by name costs twice as much.
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
  -- What the code states goes before the default, and an operator's setting before both.
  config.max_failures = rawget(config, 'max_failures') or tonumber(config.stated_attempts)
end
