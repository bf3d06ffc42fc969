-- For kinds whose entries move by the million, what a flush of `front` writes of any kind's keys and
-- hasn't read: to ask for all that a queue has takes as long as to move thirty entries.
-- KEYS: hist wake
-- USES: type_check write_buffer
local function fit_flushed()
  for zset in pairs(drops) do must_be(zset, 'zset') end
  for zset in pairs(adds) do must_be(zset, 'zset') end
  must_be(hist, 'stream')
  must_be(wake, 'list')
end
