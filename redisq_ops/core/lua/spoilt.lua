-- What somebody else wrote where a number of ours belongs. It is looked for before the first write, and
-- then the call fails with an error that names key and field, never the value.
local function legible(word) return (word:sub(1, 64):gsub('[^!-~]', '?')) end

local function spoilt(key, field, wanted)
  error({err = table.concat({'UNREADABLE key ', legible(key), ', field ', legible(field), ': ', wanted,
    ' belongs there. Another program wrote something else: ',
    'write the right value, or remove the field'})})
end

-- Text that HINCRBY takes, small enough for Lua's numbers.
local function is_whole(text)
  return #text < 17 and string.find(text, '^%-?[1-9]%d*$') ~= nil or text == '0'
end

-- The number in a field, which may be absent.
local function whole(text, key, field)
  if not text then return nil end
  if not is_whole(text) then spoilt(key, field, 'a whole number') end
  return tonumber(text)
end

-- Some fields by their names: each a whole number, or absent.
local function sound(key, names)
  local got, found = redis.call('HMGET', key, unpack(names)), {}
  for i = 1, #names do found[names[i]] = whole(got[i], key, names[i]) end
  return found
end
