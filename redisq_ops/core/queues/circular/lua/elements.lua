-- The list. Its elements are plain ids and never rewritten: an id is in it while it waits, and in a
-- list that rotates until it is processed. `spent`: id -> how many of its elements have no meaning any
-- more; they go when they are met (the article's set of completed ids). An element that a foreign
-- producer pushed is unknown until it is met.
-- The setting `circle` says what kind of list it is: `elements_rotate`: ids stay in it until processed;
-- `eager`: remove elements from its middle; `elements_each`: each push is a run; `elements_lap`: laps
-- end at a sentinel; `elements_wake`: a push wakes workers.
-- KEYS: queue spent lease delay cfg stat
-- USES: config counters corrupt_values
local shape = config.circle or ''
if config.circle and not shape:find('^%l+%.%l+%.%l+%.%l+$') then
  corrupt_values_fail(cfg, 'circle', 'a kind of circle')
end
local elements_rotate, eager = shape:find('^rotate') ~= nil, shape:find('%.eager%.') ~= nil
local elements_each, elements_lap = shape:find('%.each%.') ~= nil, shape:find('%.lap$') ~= nil
local elements_wake = not elements_lap and not shape:find('%.sleep$')

-- Removing from the middle is O(N): in longer lists, or of more at once, elements are only marked.
local EAGER_MOST, EAGER_WORK = 1000, 100000

-- Whether an entry in that state has an element in the list.
local function elements_reside(state)
  return state == 'waiting' or elements_rotate and (state == 'pending' or state == 'delayed')
end

-- A number as text; 1 if it is corrupt.
local function elements_number(text)
  return text and #text < 17 and text:find('^[1-9]%d*$') and tonumber(text) or 1
end

-- Remove elements of ids, or mark them as spent.
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

-- Remove the mark of one spent element. Returns whether there was one.
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

-- Push ids. Returns how many elements were pushed.
local function elements_place(ids, command)
  -- mutant two elements for one id: 'EXISTS', spent) == 1 => 'EXISTS', spent) == 7
  if redis.call('EXISTS', spent) == 1 then -- an id with a spent element takes that one
    local rest = {}
    for _, id in ipairs(ids) do
      if not elements_unspend(id) then rest[#rest + 1] = id end
    end
    ids = rest
  end
  if #ids > 0 then redis.call(command == 'RPUSH' and 'RPUSH' or 'LPUSH', queue, unpack(ids)) end
  return #ids
end

-- Push ids to the end that is taken from; the first of them is taken first.
local function elements_place_ahead(ids)
  local turned = {}
  for i = #ids, 1, -1 do turned[#turned + 1] = ids[i] end
  counters_add('returned', elements_place(turned, 'RPUSH'))
end

-- How many entries wait: elements that are neither spent nor in the list only until processed.
local function elements_waiting()
  local n = redis.call('LLEN', queue) - (counters_known.spent or 0) - (counters_changes.spent or 0)
  if not elements_rotate then return n end
  return n - redis.call('ZCARD', lease) - redis.call('ZCARD', delay)
    - redis.call('HEXISTS', stat, 'sentinel')
end
