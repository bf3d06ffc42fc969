-- The keys that the flush of any change writes, asked for by kinds whose changes come by the million: to
-- ask for all that a queue has takes as long as to move thirty entries. (Records were read, so their key
-- is one.)
-- KEYS: err
-- USES: fit noted history counters wake
local function fit_moves()
  for key in pairs(drops) do must_be(key, 'zset') end
  for key in pairs(adds) do must_be(key, 'zset') end
  if #forgotten > 0 then must_be(err, 'hash') end
  must_be(stat, 'hash')
  must_be(hist, 'stream')
  must_be(wake, 'list')
end
