-- Giving up a shard: whether its list is empty, and removal of its last keys.
-- KEYS: stat queue spent
-- IMPLEMENTS: storage_empty storage_clear
-- USES: elements
local function storage_empty()
  return elements_waiting() <= 0 -- another producer may have pushed to the list
end

local function storage_clear()
  redis.call('HDEL', stat, 'spent', 'sentinel', 'lap', 'barren', 'vain')
  redis.call('UNLINK', queue, spent)
end
