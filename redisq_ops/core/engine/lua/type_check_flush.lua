-- For kinds whose entries move by the million, what a flush of `front` writes of any kind's keys and
-- hasn't read: to ask for all that a queue has takes as long as to move thirty entries.
-- KEYS: hist wake
-- USES: type_check write_buffer
local function type_check_flush()
  for zset in pairs(write_buffer_drops) do type_check_key(zset, 'zset') end
  for zset in pairs(write_buffer_adds) do type_check_key(zset, 'zset') end
  type_check_key(hist, 'stream')
  type_check_key(wake, 'list')
end
