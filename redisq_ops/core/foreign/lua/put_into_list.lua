-- Putting elements back into the middle of a list. LINSERT walks from the left end. If the place is
-- far from it, elements move from the right end to the left one until the place is at the right
-- end. A script that uses this calls `turn_lists_back` at its end.
local NEAR = 10000
local turned = {} -- of each list, how many elements are at the wrong end now

local function turn_back(key, n)
  for _ = 1, n do redis.call('LMOVE', key, key, 'LEFT', 'RIGHT') end
  turned[key] = (turned[key] or 0) - n
end

local function turn_lists_back()
  for key, n in pairs(turned) do turn_back(key, n) end
end

-- Put an element behind a neighbour near the right end. False: the neighbour isn't found there.
local function into_right_end(key, member, left)
  local n = turned[key] or 0
  local there = n > 0 and redis.call('LINDEX', key, -1) == left
  local at = n > 0 and not there and redis.call('LPOS', key, left, 'MAXLEN', n)
  if at then
    turn_back(key, at + 1)
  elseif not there then
    turn_back(key, n)
    local found = redis.call('LPOS', key, left, 'RANK', -1, 'MAXLEN', NEAR)
    if not found then return false end
    turned[key] = redis.call('LLEN', key) - found - 1
    for _ = 1, turned[key] do redis.call('LMOVE', key, key, 'RIGHT', 'LEFT') end
  end
  redis.call('RPUSH', key, member)
  return true
end

-- Put an element where new ones come: on the right, or the left if jobs are taken on the right.
local function into_list_end(key, member, taken_right)
  turn_back(key, turned[key] or 0)
  redis.call(taken_right and 'LPUSH' or 'RPUSH', key, member)
end

-- Put an element back behind its neighbour `left`. If the neighbour was taken, the element becomes
-- the next one: on the left, or on the right if jobs are taken there. In a list so long that the
-- neighbour may lie too deep, it becomes the last one.
local function into_list(key, member, left, taken_right)
  local straight = (turned[key] or 0) == 0
  if left and straight and redis.call('LINDEX', key, -1) == left then
    redis.call('RPUSH', key, member) -- usual if a whole state comes back: no walk
    return
  end
  local far = redis.call('LLEN', key) > 2 * NEAR
  local walk = left and (not far or straight and redis.call('LPOS', key, left, 'MAXLEN', NEAR))
  if left and not walk and into_right_end(key, member, left) then return end
  turn_back(key, turned[key] or 0)
  if not left then
    redis.call('LPUSH', key, member)
  elseif not walk or redis.call('LINSERT', key, 'AFTER', left, member) < 1 then
    local right = far ~= (taken_right or false)
    redis.call(right and 'RPUSH' or 'LPUSH', key, member)
  end
end
