-- A request whose sub-requests are all done is done; a done one reopens when an entry comes back.
-- KEYS: open fin retire r_
-- USES: config history
local function request_completion(q)
  -- mutant done with delayed ones: pending + q.delayed => pending
  local live = q.waiting + q.pending + q.delayed + q.moving
  -- mutant done with one to go: live == 0 => live <= 1
  if q.state == 'sealed' and live == 0 then
    q.state = 'done'
    redis.call('ZREM', open, q.rid)
    redis.call('ZADD', fin, now_text, q.rid)
    redis.call('ZADD', retire, now + config.keep_ms, q.rid)
    redis.call('HSET', r_ .. q.rid, 'closed', now_text)
    redis.pcall('PUBLISH', r_ .. q.rid, 'done')
    history_note('request-done', q.rid)
  -- mutant a finished request never opens again: q.state == 'done' and live > 0 => false
  elseif q.state == 'done' and live > 0 then
    q.state = 'sealed'
    redis.call('ZADD', open, q.created, q.rid)
    redis.call('ZREM', fin, q.rid)
    redis.call('ZREM', retire, q.rid)
    redis.call('HDEL', r_ .. q.rid, 'closed')
  end
  if q.state == 'done' and q.dead + q.trash == 0 then redis.call('UNLINK', q.stream) end
end
