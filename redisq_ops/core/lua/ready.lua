-- What a kind looks at before a change is written. `room_ready`: all keys that the flush of what was
-- noted writes, `room_fits`: keys that no header can name, of an entry that is about to come.
-- USES: fit
local function room_ready()
  fit()
end

local function room_fits() end
