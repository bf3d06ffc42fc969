-- What else a kind keeps of the time at which a lease or a back-off ends: nothing, as a rule.
local RELATIVE = false -- whether all ready times are so long from when they were said

local function timed(zset, id, at) end
