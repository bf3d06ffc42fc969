-- A key of another type in the way. What a script has written stays when it fails, so who may meet such
-- a key asks before the first write. Nil, or an error that names the key.
local SIZE = {zset = 'ZCARD', hash = 'HLEN', list = 'LLEN', stream = 'XLEN', set = 'SCARD',
  string = 'STRLEN'}
local function type_check_mismatch(key, kind)
  -- A number where the type is right: half as dear as to ask for the type.
  if type(redis.pcall(SIZE[kind], key)) == 'number' then return nil end
  local is = redis.call('TYPE', key).ok
  if is == kind or is == 'none' then return nil end
  return {err = 'MISFIT key ' .. key .. ' is a ' .. is .. ' where a ' .. kind .. ' belongs'}
end

-- The call fails where a key is of another type. Each is asked for once.
local type_check_passed = {}
local function type_check_key(key, kind)
  if type_check_passed[key] then return end
  local wrong = type_check_mismatch(key, kind)
  if wrong then error(wrong) end
  type_check_passed[key] = true
end

-- Ask of all keys that have a type (`kinds` is the loader's).
local asked = false
local function type_check_all()
  if asked then return end
  asked = true
  for key, kind in pairs(key_types()) do type_check_key(key, kind) end
end
