-- A row of a step's list, as it was packed.
-- USES: corrupt_values
local function row_of(list, rows, i)
  local readable, row = pcall(cmsgpack.unpack, rows[i])
  if readable and type(row) == 'table' and type(row[1]) == 'table' and type(row[2]) == 'table' then
    return row[1], row[2]
  end
  corrupt_values_fail(list, 'row ' .. i, 'what an entry was')
end
