-- The list. Its elements are plain ids, never rewritten: an id is there while it waits, and where the
-- list rotates until it is processed. `spent`: id -> how many of its elements mean nothing any more;
-- they go when they are met (the article's set of completed ids). What a foreign producer pushed is an
-- element that nobody knows of until it is met.
-- KEYS: queue spent lease delay cfg stat
-- USES: config counters corrupt_values
local shape = config.circle or ''
if config.circle and not shape:find('^%l+%.%l+%.%l+%.%l+$') then
  corrupt_values_fail(cfg, 'circle', 'a kind of circle')
end
local elements_rotate, eager = shape:find('^rotate') ~= nil, shape:find('%.eager%.') ~= nil
local elements_each, elements_lap = shape:find('%.each%.') ~= nil, shape:find('%.lap$') ~= nil
local elements_wake = not elements_lap and not shape:find('%.sleep$')
-- Removing from the middle is O(N): of longer lists, or more at once, elements are only marked.
local EAGER_MOST, EAGER_WORK = 1000, 100000

local function elements_reside(state)
  return state == 'waiting' or elements_rotate and (state == 'pending' or state == 'delayed')
end

-- How many; what somebody spoilt is one.
local function elements_number(text)
  return text and #text < 17 and text:find('^[1-9]%d*$') and tonumber(text) or 1
end

local function elements_spend(ids)
  local size = eager and redis.call('LLEN', queue)
  if eager and size <= EAGER_MOST and size * #ids <= EAGER_WORK then
    for _, id in ipairs(ids) do redis.call('LREM', queue, -1, id) end
    return
  end
  local marks, had = {}, redis.call('HMGET', spent, unpack(ids))
  for i, id in ipairs(ids) do
    marks[2 * i - 1], marks[2 * i] = id, had[i] and elements_number(had[i]) + 1 or 1
  end
  redis.call('HSET', spent, unpack(marks))
  counters_add('spent', #ids)
end

-- Take a spent element's mark away; whether there was one.
local function elements_unspend(id)
  local left = redis.call('HGET', spent, id)
  if not left then return false end
  if elements_number(left) > 1 then
    redis.call('HSET', spent, id, elements_number(left) - 1)
  else
    redis.call('HDEL', spent, id)
  end
  counters_add('spent', -1)
  return true
end

local function elements_place(ids, command)
  if redis.call('EXISTS', spent) == 1 then -- an id that still has a spent element takes its place
    local rest = {}
    for _, id in ipairs(ids) do
      if not elements_unspend(id) then rest[#rest + 1] = id end
    end
    ids = rest
  end
  if #ids > 0 then redis.call(command == 'RPUSH' and 'RPUSH' or 'LPUSH', queue, unpack(ids)) end
  return #ids
end

-- The first of them is to be the very first.
local function elements_place_ahead(ids)
  local turned = {}
  for i = #ids, 1, -1 do turned[#turned + 1] = ids[i] end
  counters_add('returned', elements_place(turned, 'RPUSH'))
end

-- How many wait: all elements of the list but those that are spent, or are there until processed.
local function elements_waiting()
  local n = redis.call('LLEN', queue) - (counters_known.spent or 0) - (counters_changes.spent or 0)
  if not elements_rotate then return n end
  return n - redis.call('ZCARD', lease) - redis.call('ZCARD', delay)
    - redis.call('HEXISTS', stat, 'sentinel')
end
