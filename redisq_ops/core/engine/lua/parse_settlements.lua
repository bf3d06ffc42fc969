-- What a settle is told: id and receipt of each in one word, by blanks, and behind a bar the number of
-- its row, where there is more to say than that it is acknowledged. What no take handed out may have a
-- blank or a bar in it, or be empty: then all are quoted, each behind a dot, the first behind a blank.
-- The script using this names ARGV `told`.
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
