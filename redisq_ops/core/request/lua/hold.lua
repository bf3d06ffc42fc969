-- Of a request's sub-requests that were still to be done, how many are on their way to another queue:
-- they may come back, so it isn't done before. Who moves them says when that has `ended`; who is
-- never heard of again holds it up until the move is finished by another, or, if no list has that move, as
-- long as they can be brought back: then `room_retire` goes on.
-- KEYS: retire
-- USES: requests config moved
local function hold(q)
  if q.moving == (q.had.moving or 0) then return end
  if q.moving > 0 then
    redis.call('ZADD', retire, now + conf.trash_ms, q.rid)
  elseif q.state == 'open' or q.state == 'sealed' then
    redis.call('ZREM', retire, q.rid)
  end
end
