-- What the shop writes when a job goes from one of its keys to another.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_jobs_
-- NEEDS: queue
-- USES: element type_check
local list = t_jobs_ .. queue

local function moves_fit(e)
  type_check_key(e.key, e.key == list and 'list' or 'zset')
  type_check_key(list, 'list')
end

local function moves_take_out(e)
  if e.key ~= list and not element_scored(e) then return nil end
  return e.dry or element_leaves(e, e.key == list and 'list' or 'zset')
end

local function moves_put_in(e)
  redis.call('RPUSH', list, e.member)
  return list, e.member
end

local function moves_take_back(e, to, went, seen) return out_of_list(went, e.member, seen) end

-- Not where the same bytes are back already.
local function moves_restorable(e)
  return not (e.score and redis.call('ZSCORE', e.key, e.member))
end

local function moves_put_back(e) return element_returns(e) end
