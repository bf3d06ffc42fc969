-- What the shop writes when an order goes from one of its keys to another.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_orders_
-- NEEDS: queue
-- USES: remove_from_list put_into_list type_check
local list = t_orders_ .. queue

local function moves_fit(e)
  type_check_key(e.key, e.key == list and 'list' or 'zset')
  type_check_key(list, 'list')
end

local function moves_take_out(e)
  if e.key == list then
    if e.dry then return true end
    e.rank, e.left = tonumber(e.seen), left_of(list, e.member, tonumber(e.seen))
    return out_of_list(list, e.member, e.rank)
  end
  e.score = redis.call('ZSCORE', e.key, e.member)
  if not e.score or tonumber(e.score) ~= tonumber(e.seen) then return nil end
  if not e.dry then redis.call('ZREM', e.key, e.member) end
  return true
end

local function moves_put_in(e)
  redis.call('RPUSH', list, e.member)
  return list, e.member
end

local function moves_take_back(e, to, went, seen)
  if to == 'restore' then
    e.seen = seen or e.score
    return moves_take_out(e)
  end
  return out_of_list(went, e.member, seen)
end

local function moves_restorable() return true end

local function moves_put_back(e)
  if e.score then
    redis.call('ZADD', e.key, e.score, e.member)
  else
    into_list(list, e.member, e.left)
    return list, e.member
  end
end
