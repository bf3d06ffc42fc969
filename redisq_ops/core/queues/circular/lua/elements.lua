-- The list. Its elements are plain ids, never rewritten: an id is there while it waits, and where the
-- list rotates until it is processed. `spent`: id -> how many of its elements mean nothing any more;
-- they go when they are met (the article's set of completed ids). What a foreign producer pushed is an
-- element that nobody knows of until it is met.
-- KEYS: queue spent lease delay
-- USES: config counters
local shape = conf.circle or ''
if conf.circle and not shape:find('^%l+%.%l+%.%l+%.%l+$') then
  spoilt(cfg, 'circle', 'a kind of circle')
end
local rotate, eager = shape:find('^rotate') ~= nil, shape:find('%.eager%.') ~= nil
local each, lap = shape:find('%.each%.') ~= nil, shape:find('%.lap$') ~= nil
local rings = not lap and not shape:find('%.sleep$')
-- Removing from the middle is O(N): of longer lists, or more at once, elements are only marked.
local EAGER_MOST, EAGER_WORK = 1000, 100000

local function resides(state)
  return state == 'waiting' or rotate and (state == 'pending' or state == 'delayed')
end

-- How many; what somebody spoilt is one.
local function many(text)
  return text and #text < 17 and text:find('^[1-9]%d*$') and tonumber(text) or 1
end

local function spend(ids)
  local size = eager and redis.call('LLEN', queue)
  if eager and size <= EAGER_MOST and size * #ids <= EAGER_WORK then
    for _, id in ipairs(ids) do redis.call('LREM', queue, -1, id) end
    return
  end
  local marks, had = {}, redis.call('HMGET', spent, unpack(ids))
  for i, id in ipairs(ids) do
    marks[2 * i - 1], marks[2 * i] = id, had[i] and many(had[i]) + 1 or 1
  end
  redis.call('HSET', spent, unpack(marks))
  count('spent', #ids)
end

-- Take a spent element's mark away; whether there was one.
local function unspend(id)
  local left = redis.call('HGET', spent, id)
  if not left then return false end
  if many(left) > 1 then
    redis.call('HSET', spent, id, many(left) - 1)
  else
    redis.call('HDEL', spent, id)
  end
  count('spent', -1)
  return true
end

local function place(ids, command)
  if redis.call('EXISTS', spent) == 1 then -- an id that still has a spent element takes its place
    local rest = {}
    for _, id in ipairs(ids) do
      if not unspend(id) then rest[#rest + 1] = id end
    end
    ids = rest
  end
  if #ids > 0 then redis.call(command == 'RPUSH' and 'RPUSH' or 'LPUSH', queue, unpack(ids)) end
  return #ids
end

-- The first of them is to be the very first.
local function place_ahead(ids)
  local turned = {}
  for i = #ids, 1, -1 do turned[#turned + 1] = ids[i] end
  count('returned', place(turned, 'RPUSH'))
end

-- How many wait: all elements of the list but those that are spent, or are there until processed.
local function room_waiting()
  local n = redis.call('LLEN', queue) - (counted.spent or 0) - (stats.spent or 0)
  if not rotate then return n end
  return n - redis.call('ZCARD', lease) - redis.call('ZCARD', delay)
    - redis.call('HEXISTS', stat, 'sentinel')
end
