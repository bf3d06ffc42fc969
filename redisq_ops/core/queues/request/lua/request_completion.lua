-- A request whose sub-requests are all done is done; a done one reopens when an entry comes back.
-- The request that follows it (see submit.lua) goes on then, once: whoever pauses it later meant it.
-- KEYS: open fin retire r_ p_ prios
-- USES: config history type_check request request_tokens
local request_completion_followers = {}

-- Before the first write, of a request that ends: reads its follower.
local function request_completion_prepare(q)
  q.followed = redis.call('HGET', r_ .. q.rid, 'then')
  if q.followed and redis.call('HGET', r_ .. q.followed, 'follows') ~= q.rid then
    q.followed = nil -- the id is another request's by now
  end
  local follower = q.followed and request_get(q.followed)
  if follower and follower.paused == 1 then
    type_check_key(p_ .. follower.priority, 'list')
    type_check_key(prios, 'zset')
    q.follower = follower
  end
end

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
    if q.followed then
      redis.call('HDEL', r_ .. q.rid, 'then')
      redis.call('HDEL', r_ .. q.followed, 'follows')
    end
    request_completion_followers[#request_completion_followers + 1] = q.follower
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

-- After all touched requests are written, of which a follower may be one.
local function request_completion_resume()
  for _, q in ipairs(request_completion_followers) do
    q.paused = 0
    request_tokens_sync(q)
    request_write(q)
  end
  request_completion_followers = {}
end
