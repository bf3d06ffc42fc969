-- What tells a record in a hash from a later one of its id: which of some fields were read, as 1 for
-- each, or 0 if it is too long, and the digest of these. Python makes the same bytes (`JobHash.stamp`).
-- `marks`: the ones and noughts, if not all fields were read.
local function stamps_of(values, marks)
  local told = {}
  for i, value in ipairs(values) do told[i] = #(value or '') .. ':' .. (value or '') end
  return (marks or ('1'):rep(#values)) .. ' ' .. redis.sha1hex(table.concat(told))
end

-- Whether the fields of a hash that were read still have their values. No other is read here.
local function stamps_hold(key, names, stamp)
  local marks, read = stamp:match('^%d*'), {}
  for i, name in ipairs(names) do
    if marks:byte(i) == 49 then read[#read + 1] = name end
  end
  return #read > 0 and stamps_of(redis.call('HMGET', key, unpack(read)), marks) == stamp
end
