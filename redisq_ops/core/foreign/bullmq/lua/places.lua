-- Taking an id out of a list or a sorted set.
-- USES: remove_from_list
-- What an undo needs is kept: `e.rank` and the neighbour, or the score.
local function places_leave(e, list)
  if list then
    e.rank = tonumber(e.seen)
    e.left = left_of(e.key, e.member, e.rank)
    return out_of_list(e.key, e.member, e.rank)
  end
  e.score = redis.call('ZSCORE', e.key, e.member)
  if not e.score or tonumber(e.score) ~= tonumber(e.seen) then return nil end
  return redis.call('ZREM', e.key, e.member) == 1
end
