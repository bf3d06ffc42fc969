-- What tells a record in a hash from a later one of its id: which of some fields were read, as 1 for
-- each, or 0 if it is too long, and the digest of these. Python makes the same bytes (`JobHash.stamp`).
local function stamps_read(key, names, marks)
  local read, told, fields = {}, {}, {}
  for i, name in ipairs(names) do
    if marks:byte(i) == 49 then read[#read + 1] = name end
  end
  local values = #read > 0 and redis.call('HMGET', key, unpack(read)) or {}
  for i, value in ipairs(values) do
    told[i] = #(value or '') .. ':' .. (value or '')
    fields[read[i]] = value or nil
  end
  return marks .. ' ' .. redis.sha1hex(table.concat(told)), fields
end

local function stamps_of(key, names) return (stamps_read(key, names, ('1'):rep(#names))) end

-- The fields that were read; nil if one of them has changed since.
local function stamps_fields(key, names, stamp)
  local is, fields = stamps_read(key, names, stamp:match('^%d*'))
  return is == stamp and fields or nil
end
