-- What a kind still has to look at before a change is written: keys that no header can name.
-- `room_ready`: the entries that were moved, `room_fits`: one that is about to come, by its payload.
local function room_ready() end

local function room_fits() end
