-- Taking elements out of the middle of a list. Redis can do that only by a walk from an end. So a
-- mark replaces each element first, and one walk removes all marks. Elements further than `REACH`
-- from both ends stay. The script using this names ARGV `caller` and `seq`.
-- NEEDS: caller seq
local REACH, AROUND = 10000, 100
local marks, drift = {}, {}
-- How many elements searches may still pass: in each list, or in all lists together (`all`).
-- Reading an element costs as much as passing twenty.
local MOST, budget = 30 * REACH, {}
local mark = '\1redisq ' .. caller .. ' ' .. seq .. ' '

-- Where a member seen at position `seen` is now: others may have come and gone at both ends.
-- Searches may walk far, so a budget allows few; `unsure`: it is spent, the member may be there.
local function search(key, member, seen)
  local at = seen + (drift[key] or 0)
  -- mutant another's place in the list: redis.call('LINDEX', key, at) == member => true
  if at >= 0 and redis.call('LINDEX', key, at) == member then return at end
  local low, best, most = math.max(0, at - AROUND), nil, budget.all or budget[key] or MOST
  most = most - 20 * AROUND
  if most < 0 then return nil, 'unsure' end
  for i, other in ipairs(redis.call('LRANGE', key, low, math.max(0, at) + AROUND)) do
    local here = low + i - 1
    if other == member and (not best or math.abs(here - at) < math.abs(best - at)) then best = here end
  end
  if not best then -- everything may have moved further than that
    most = most - 2 * REACH
    if most < 0 then return nil, 'unsure' end
    local from_left = redis.call('LPOS', key, member, 'RANK', 1, 'MAXLEN', REACH)
    best = from_left or redis.call('LPOS', key, member, 'RANK', -1, 'MAXLEN', REACH) or nil
  end
  budget[budget.all and 'all' or key] = most
  if best then drift[key] = best - seen end
  return best
end

-- The same place is asked for twice, by `left_of` and `out_of_list`: it is searched once.
local found = {}
local function position(key, member, seen)
  if found[1] ~= key or found[2] ~= member or found[3] ~= seen then
    found = {key, member, seen, search(key, member, seen)}
  end
  return found[4], found[5]
end

local function out_of_list(key, member, seen)
  local at, why = position(key, member, seen)
  found = {}
  if not at then return nil, why end
  local behind = redis.call('LLEN', key) - at
  local near = at < behind and 'L' or 'R'
  if math.min(at + 1, behind) > REACH then return nil, 'deep' end
  marks[key] = marks[key] or {L = 0, R = 0}
  marks[key][near], marks[key][at] = marks[key][near] + 1, member
  redis.call('LSET', key, at, mark .. near)
  return true
end

local function sweep_marks()
  for key, n in pairs(marks) do
    if n.L > 0 then redis.call('LREM', key, n.L, mark .. 'L') end
    if n.R > 0 then redis.call('LREM', key, -n.R, mark .. 'R') end
  end
  marks = {}
end

-- The element to the left of one that was read at a position, as it was before this step; nil: none.
local function left_of(key, member, seen)
  local at = position(key, member, seen)
  if not at or at == 0 then return nil end
  return marks[key] and marks[key][at - 1] or redis.call('LINDEX', key, at - 1)
end
