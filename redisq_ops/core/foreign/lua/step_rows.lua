-- The rows of a step's undo list: where the entry went (a state, or `restore`), the entry, the list it
-- went to and the SHA-1 of its bytes there; both are '' if it isn't in a list.
-- USES: corrupt_values renamed moves_renamed
local function step_rows_pack(to, e, list, bytes)
  local sha, _, named = list and redis.sha1hex(bytes) or '', moves_renamed(list or '')
  return cmsgpack.pack({to, renamed_kept(e), list or '', sha, named})
end

local function step_rows_read(key, rows, i)
  local readable, row = pcall(cmsgpack.unpack, rows[i])
  if readable and type(row) == 'table' and type(row[1]) == 'string' and type(row[2]) == 'table'
    and type(row[3]) == 'string' then
    -- mutant list renamed unseen: (moves_renamed(row[3], row[5])) => row[3]
    return row[1], renamed_now(row[2]), (moves_renamed(row[3], row[5])), row[4]
  end
  corrupt_values_fail(key, 'row ' .. i, 'what an entry was')
end
