-- Read the argument `told` of a settle: `id receipt` of each delivery, separated by blanks, and after a
-- bar the number of its row if it isn't a plain acknowledgement. Words that no take gave out may be
-- empty or contain blanks and bars; then all words are percent-quoted and begin with a dot, and the
-- first one follows a blank.
-- `parse_settlements()` returns ids, receipts, row numbers (nil for none), and how many there are.
-- NEEDS: told
local function unquoted(word)
  return (word:sub(2):gsub('%%(%x%x)', function(code) return string.char(tonumber(code, 16)) end))
end

local function parse_settlements()
  local ids, receipts, rows, n = {}, {}, {}, 0
  local plain, quoted = #ARGV < first, told:byte() == 32
  for id, receipt in told:gmatch('([^ ]+) ([^ ]+)') do
    n = n + 1
    if not plain then
      local bare, row = receipt:match('^(.*)|(%d+)$')
      receipt, rows[n] = bare or receipt, tonumber(row)
    end
    if quoted then id, receipt = unquoted(id), unquoted(receipt) end
    ids[n], receipts[n] = id, receipt
  end
  return ids, receipts, rows, n
end
