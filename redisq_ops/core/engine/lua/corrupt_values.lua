-- A number that another program overwrote with something else. It is found before the first write; then
-- the call fails with an error that names key and field, never the value.
local function corrupt_values_fail(key, field, wanted)
  local message = {'UNREADABLE key ', key, ', field ', field, ': ', wanted,
    ' belongs there. Another program wrote something else: ',
    'write the right value, or remove the field'}
  for i = 2, 4, 2 do message[i] = message[i]:sub(1, 64):gsub('[^!-~]', '?') end
  error({err = table.concat(message)})
end

-- The number in a field, nil if absent: text that HINCRBY accepts, and that Lua represents exactly.
local find = string.find
local function corrupt_values_integer(text, key, field)
  if not text then return nil end
  if text ~= '0' and (#text > 16 or not find(text, '^%-?[1-9]%d*$')) then
    corrupt_values_fail(key, field, 'a whole number')
  end
  return text + 0
end

-- Read fields of a hash that hold whole numbers. Returns name -> number, or false where absent.
local function corrupt_values_integers(key, names)
  local got, found = redis.call('HMGET', key, unpack(names)), {}
  for i = 1, #names do
    local text = got[i]
    found[names[i]] = text and corrupt_values_integer(text, key, names[i])
  end
  return found
end
