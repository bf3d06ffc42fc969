-- Messages of Celery that wait in a list: removed by their exact bytes, and put back.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: element type_check
-- mutant type check off: type_check_key(e.key, 'list') =>
local function moves_fit(e) type_check_key(e.key, 'list') end

local function moves_take_out(e)
  if e.dry then return true end
  return element_leaves(e, 'list')
end

-- No verb puts a message into another list: its priority decides its list.
local function moves_put_in() end

local function moves_take_back() end

local function moves_restorable() return true end

local function moves_put_back(e) return element_returns(e, true) end
