-- Of a request's sub-requests that were still to be done, how many are on their way to another queue:
-- they may come back, so it isn't done before. Who moves them says when that has `ended`, or whoever
-- finishes the move for them; of a move that no list has, `room_retire` goes on after `trash_ms`.
-- KEYS: retire
-- USES: config
local function in_transit_count(q)
  if q.moving == (q.had.moving or 0) then return end
  if q.moving > 0 then
    redis.call('ZADD', retire, now + config.trash_ms, q.rid)
  elseif q.state == 'open' or q.state == 'sealed' then
    redis.call('ZREM', retire, q.rid)
  end
end
