-- Write the keys that Carmine reads when a message changes its state. Dead and purged messages are
-- hidden from it: their content is in `body`, and their id stays in the circle, listed in `stray`, until
-- the circle reaches it. `next`: newer content that waits until the present delivery has ended.
-- KEYS: messages backoffs nattempts requeued body next stray delay dead meta err
-- USES: circle wake_workers

-- By key: arguments of HSET, HDEL, SADD and SREM.
local visible_puts, visible_cuts, joins, visible_parts = {}, {}, {}, {}

local function visible_add(map, key, one, two)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  local n = #list
  list[n + 1], list[n + 2] = one, two
end

local function visible_write()
  for key, ids in pairs(visible_cuts) do redis.call('HDEL', key, unpack(ids)) end
  for key, ids in pairs(visible_parts) do redis.call('SREM', key, unpack(ids)) end
  for key, rows in pairs(visible_puts) do redis.call('HSET', key, unpack(rows)) end
  for key, ids in pairs(joins) do redis.call('SADD', key, unpack(ids)) end
  visible_puts, visible_cuts, joins, visible_parts = {}, {}, {}, {}
end

local follows -- whether `next` exists; read once
local function visible_follows()
  if follows == nil then follows = redis.call('EXISTS', next) == 1 end
  return follows
end

-- A message dies while newer content of it waits. That content's producer has been promised a run, so it
-- waits at once, without attempts. Returns the ids that stay dead.
local function visible_revive(ids)
  -- mutant newer content dies with the old: #ids == 0 => true
  if #ids == 0 or not visible_follows() then return ids end
  local dying = {}
  for i, content in ipairs(redis.call('HMGET', next, unpack(ids))) do
    local id = ids[i]
    if content then
      redis.call('ZREM', dead, id)
      redis.call('HDEL', meta, id)
      redis.call('HDEL', err, id)
      redis.call('HDEL', next, id)
      redis.call('SREM', requeued, id)
      redis.call('ZADD', delay, now, id)
      visible_add(visible_puts, messages, id, content)
      visible_add(visible_cuts, nattempts, id)
      wake_workers(1)
    else
      dying[#dying + 1] = id
    end
  end
  return dying
end

local function visible_leave(id)
  -- mutant dead ones in sight: messages, =>
  for _, key in ipairs({messages, backoffs, nattempts}) do visible_add(visible_cuts, key, id) end
  visible_add(visible_parts, requeued, id)
  visible_add(joins, stray, id)
end

local function visible_hide(ids)
  if #ids == 0 then return end
  for i, content in ipairs(redis.call('HMGET', messages, unpack(ids))) do
    visible_add(visible_puts, body, ids[i], content or '')
    visible_leave(ids[i])
  end
end

local function visible_show(ids)
  if #ids == 0 then return end
  local coming = redis.call('HMGET', next, unpack(ids))
  for i, content in ipairs(redis.call('HMGET', body, unpack(ids))) do
    visible_add(visible_puts, messages, ids[i], content or '')
    visible_add(visible_cuts, body, ids[i])
    -- mutant to be queued again, forgotten on the way
    if coming[i] then visible_add(joins, requeued, ids[i]) end
  end
  circle_add(ids)
end
