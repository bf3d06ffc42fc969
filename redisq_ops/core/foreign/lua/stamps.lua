-- Values as one text: each behind its length and a colon.
local function stamps_told(values)
  local told = {}
  for i, value in ipairs(values) do told[i] = #(value or '') .. ':' .. (value or '') end
  return table.concat(told)
end

-- The stamp of a record in a hash: a mark for each field (1: it was read, 0: it is too long), and the
-- digest of those read. A later record of the id has another. Python makes the same (`JobHash.stamp`).
-- `marks`: the marks, if not all fields were read.
local function stamps_of(values, marks)
  return (marks or ('1'):rep(#values)) .. ' ' .. redis.sha1hex(stamps_told(values))
end

-- Whether the fields of a hash that were read still have their values. No other is read here.
local function stamps_hold(key, names, stamp)
  local marks, read = stamp:match('^%d*'), {}
  for i, name in ipairs(names) do
    if marks:byte(i) == 49 then read[#read + 1] = name end
  end
  return #read > 0 and stamps_of(redis.call('HMGET', key, unpack(read)), marks) == stamp
end
