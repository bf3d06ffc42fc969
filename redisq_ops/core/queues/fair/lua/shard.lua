-- A shard that is given up: whether it has no entries and no clients (`forget_clients` removes these),
-- and what is left of it in the end.
-- KEYS: body clients stat holes packing ring accounts resting
-- IMPLEMENTS: storage_empty storage_clear
local function storage_empty()
  return redis.call('EXISTS', body, clients) == 0
end

local function storage_clear()
  redis.call('HDEL', stat, 'waiting', 'vt', 'vt_latest', 'looked', 'resting')
  redis.call('UNLINK', holes, packing, ring, accounts, resting)
end
