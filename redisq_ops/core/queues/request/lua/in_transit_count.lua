-- How many of a request's live sub-requests are on their way to another queue: they may come back, so
-- the request isn't done before. Whoever moves them says when a step has ended (`storage_step_ended`).
-- For a move that nobody finishes, `storage_retire` goes on after `trash_ms`.
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
