-- What Carmine sees of a message, written when its state changes. Dead and purged messages are out
-- of its sight: their content is in `body`, and what they left in the circle is `stray` until the
-- circle comes round to it. `next`: the content that waits for the present delivery to end.
-- KEYS: messages locks backoffs nattempts requeued body next stray delay dead meta err stat
-- USES: config circle wake_workers counters
local puts, cuts, joins, parts = {}, {}, {}, {} -- by key: to HSET, to HDEL, to SADD, to SREM

local function add(map, key, one, two)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  local n = #list
  list[n + 1], list[n + 2] = one, two
end

local function write_sight()
  for key, ids in pairs(cuts) do redis.call('HDEL', key, unpack(ids)) end
  for key, ids in pairs(parts) do redis.call('SREM', key, unpack(ids)) end
  for key, rows in pairs(puts) do redis.call('HSET', key, unpack(rows)) end
  for key, ids in pairs(joins) do redis.call('SADD', key, unpack(ids)) end
  puts, cuts, joins, parts = {}, {}, {}, {}
end

local follows -- most queues never have a message that is to run again
local function some_follow()
  if follows == nil then follows = redis.call('EXISTS', next) == 1 end
  return follows
end

-- Dead while newer content of it waits: the producer was told that it runs, so it takes the dead
-- one's place at once, its attempts fresh. Returns those that stay dead.
local function revive(ids)
  if #ids == 0 or not some_follow() then return ids end
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
      add(puts, messages, id, content)
      add(cuts, nattempts, id)
      wake_workers(1)
    else
      dying[#dying + 1] = id
    end
  end
  return dying
end

local function leave_sight(id)
  for _, key in ipairs({messages, backoffs, nattempts}) do add(cuts, key, id) end
  add(parts, requeued, id)
  add(joins, stray, id)
end

local function hide(ids)
  if #ids == 0 then return end
  for i, content in ipairs(redis.call('HMGET', messages, unpack(ids))) do
    add(puts, body, ids[i], content or '')
    leave_sight(ids[i])
  end
end

local function show(ids)
  if #ids == 0 then return end
  -- A mover looks through one hash after the other: it has to learn that something went back.
  if conf.layout then count('shown', #ids) end
  local coming = redis.call('HMGET', next, unpack(ids))
  for i, content in ipairs(redis.call('HMGET', body, unpack(ids))) do
    add(puts, messages, ids[i], content or '')
    add(cuts, body, ids[i])
    if coming[i] then add(joins, requeued, ids[i]) end
  end
  into_circle(ids)
end
