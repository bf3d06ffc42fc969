-- What a settle is told: id and receipt of each in one word, by blanks, and behind a bar the number of
-- its row, where there is more to say than that it is acknowledged.
-- The script using this names ARGV `told`.
local ids, receipts, rows, number = {}, {}, {}, 0
local plain = #ARGV < first
for id, receipt in told:gmatch('([^ ]+) ([^ ]+)') do
  number = number + 1
  if not plain then
    local bare, row = receipt:match('^(.*)|(%d+)$')
    receipt, rows[number] = bare or receipt, tonumber(row)
  end
  ids[number], receipts[number] = id, receipt
end
