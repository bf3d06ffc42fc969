-- Ids in the owner's lists, sets and sorted sets whose record is gone: only the place of an id is kept.
-- `e.orphan`: the end of the owner's lists from which the next entry is taken, LEFT or RIGHT.
-- USES: moves_lacks_record remove_from_list put_into_list
local function orphans_take_out(e)
  local ok, why = moves_lacks_record(e)
  if not ok then return nil, why end
  local kind = redis.call('TYPE', e.key).ok
  e.shown = ''
  if kind == 'set' then
    e.set = true
    return redis.call('SREM', e.key, e.member) == 1
  elseif kind == 'list' then
    e.rank = tonumber(e.seen)
    e.left = left_of(e.key, e.member, e.rank)
    return out_of_list(e.key, e.member, e.rank)
  end
  e.score = redis.call('ZSCORE', e.key, e.member)
  if not e.score or tonumber(e.score) ~= tonumber(e.seen) then return nil end
  redis.call('ZREM', e.key, e.member)
  return true
end

local function orphans_restorable(e)
  return moves_lacks_record(e) and not (e.score and redis.call('ZSCORE', e.key, e.member))
end

local function orphans_put_back(e)
  if e.set then
    redis.call('SADD', e.key, e.member)
  elseif e.score then
    redis.call('ZADD', e.key, e.score, e.member)
  else
    into_list(e.key, e.member, e.left, e.orphan == 'RIGHT')
    return e.key, e.member
  end
end
