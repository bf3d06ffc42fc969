-- Residence `list`: ids that wait are in it, and leave it to be worked on.
-- USES: examine_element
local function pop_list(n)
  clean = redis.call('EXISTS', spent, transit) == 0
  local budget = n + 64
  while got < n and budget > 0 do
    local ids = redis.call('RPOP', queue, math.min(n - got, budget))
    if not ids then return false end
    budget = budget - #ids
    count('popped', #ids)
    local lines = redis.call('HMGET', meta, unpack(ids))
    local contents = redis.call('HMGET', body, unpack(ids))
    for i = 1, #ids do
      local id, content = ids[i], contents[i]
      if clean and content and not lines[i] and not held[id] then -- most, and so without a detour
        take_up(id, nil, content)
      else
        meet(id, lines[i], content)
      end
    end
  end
  return redis.call('EXISTS', queue) == 1
end
