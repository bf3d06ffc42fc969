-- The keys that a flush of `move_range` writes and hasn't read, for kinds with millions of entries:
-- checking all keys of a queue takes as long as moving thirty entries.
-- KEYS: hist wake
-- USES: type_check write_buffer
local function type_check_flush()
  for zset in pairs(write_buffer_drops) do type_check_key(zset, 'zset') end
  for zset in pairs(write_buffer_adds) do type_check_key(zset, 'zset') end
  type_check_key(hist, 'stream')
  type_check_key(wake, 'list')
end
