-- The rows of a step's undo list: where the entry went (a state, or `restore`), the entry, the list it
-- went to and the SHA-1 of its bytes there; both are '' if it isn't in a list.
-- USES: corrupt_values
local function step_rows_pack(to, e, list, bytes)
  return cmsgpack.pack({to, e, list or '', list and redis.sha1hex(bytes) or ''})
end

local function step_rows_read(key, rows, i)
  local readable, row = pcall(cmsgpack.unpack, rows[i])
  if readable and type(row) == 'table' and type(row[1]) == 'string' and type(row[2]) == 'table'
    and type(row[3]) == 'string' then
    return row[1], row[2], row[3], row[4]
  end
  corrupt_values_fail(key, 'row ' .. i, 'what an entry was')
end
