-- Collect up to `n` ids from a list that waiting ids leave when they are taken. `pop_list(n)` returns
-- whether there may be more.
-- KEYS: spent transit queue meta body
-- USES: batch counters
local function pop_list(n)
  batch_clean = redis.call('EXISTS', spent, transit) == 0
  local budget = n + 64
  while batch_size < n and budget > 0 do
    -- mutant the last in comes first: RPOP => LPOP
    local ids = redis.call('RPOP', queue, math.min(n - batch_size, budget))
    if not ids then return false end
    budget = budget - #ids
    counters_add('popped', #ids)
    local lines = redis.call('HMGET', meta, unpack(ids))
    local contents = redis.call('HMGET', body, unpack(ids))
    for i = 1, #ids do
      local id, content = ids[i], contents[i]
      if batch_clean and content and not lines[i] and not batch_held[id] then -- the most common case
        batch_add(id, nil, content)
      else
        batch_examine(id, lines[i], content)
      end
    end
  end
  return redis.call('EXISTS', queue) == 1
end
