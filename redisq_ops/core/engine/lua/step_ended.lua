-- A step of a move to another queue has ended: all it took out of `state` is there, or back.
local function ended(op, step, state) end
