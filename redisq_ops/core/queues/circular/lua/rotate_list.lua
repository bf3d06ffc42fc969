-- Collect up to `n` ids from a list that rotates: ids stay in it until they are processed.
-- `rotate_list(n)` returns whether there may be more.
-- KEYS: stat queue lease delay spent transit meta body
-- USES: batch counters elements

-- The sentinel at the end of a lap is an element that no foreign producer can have pushed: it has a new
-- number each time. In `stat`, `lap` is the list's length when the lap began, as long as nothing was
-- found or pushed since; `barren` is the length of a list in which a whole lap found nothing.
local function set_sentinel(size)
  local number = counters_reserve('laps', 1) + 1
  redis.call('HSET', stat, 'sentinel', number, 'lap', size)
  return '*' .. number
end

-- Whether the whole list was examined and nothing found: elements that seem to wait may be pushes of ids
-- that are delivered. `vain` in `stat`: how many elements were examined for nothing, in a list how long.
local function vain(seen, size)
  local looked, of = (redis.call('HGET', stat, 'vain') or ''):match('^(%d+) (%d+)$')
  looked = (tonumber(of) == size and looked or 0) + seen
  redis.call('HSET', stat, 'vain', looked .. ' ' .. size)
  return looked >= size
end

local function rotate_list(n)
  local size = redis.call('LLEN', queue)
  local sentinel = elements_lap and redis.call('HGET', stat, 'sentinel')
  sentinel = sentinel and '*' .. sentinel
  if elements_lap and size > 0 and not sentinel then
    size = size + 1
    sentinel = set_sentinel(size)
    redis.call('LPUSH', queue, sentinel)
  elseif not elements_lap and size <= redis.call('ZCARD', lease) + redis.call('ZCARD', delay) then
    return false -- nothing waits, and nothing is spent
  end
  if size == 0 then return false end
  batch_clean = redis.call('EXISTS', spent, transit) == 0
  local block = math.min(size, n + 64)
  local ids = redis.call('LRANGE', queue, -block, -1)
  local lines, stay, seen, round = redis.call('HMGET', meta, unpack(ids)), {}, 0, false
  while seen < block and batch_size < n and not round do
    local at = block - seen
    local id, line = ids[at], lines[at]
    seen = seen + 1
    if id == sentinel then
      round = true
      stay[#stay + 1] = ''
    else
      -- Most elements are of delivered entries; payloads are read one by one.
      local busy = line and line:byte() ~= 45 -- a minus: no receipt
      local content = not busy and redis.call('HGET', body, id) or busy and ''
      if busy and batch_clean or batch_examine(id, line, content) then stay[#stay + 1] = id end
    end
  end
  local left = size - seen + #stay
  if #batch_ids > 0 then redis.call('HDEL', stat, 'lap', 'barren', 'vain') end
  if round and left == 1 then -- nothing but the sentinel
    stay = {}
    redis.call('HDEL', stat, 'sentinel', 'lap', 'barren')
  elseif round then
    local before = tonumber(redis.call('HGET', stat, 'lap'))
    if before == left then redis.call('HSET', stat, 'barren', left) end
    stay[#stay] = set_sentinel(left)
  end
  redis.call('RPOP', queue, seen)
  if #stay > 0 then redis.call('LPUSH', queue, unpack(stay)) end
  counters_add('popped', seen)
  if elements_lap then return left > 1 and tonumber(redis.call('HGET', stat, 'barren')) ~= left end
  if #batch_ids == n then return elements_waiting() - #batch_ids > 0 end
  return block < size and (#batch_ids > 0 or not vain(#stay, left))
end
