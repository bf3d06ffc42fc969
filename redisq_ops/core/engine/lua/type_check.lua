-- Keys of another type than ours. What a script has written stays when it fails, so types are checked
-- before the first write. `type_check_mismatch(key, kind)`: nil, or an error that names the key.
local SIZE = {zset = 'ZCARD', hash = 'HLEN', list = 'LLEN', stream = 'XLEN', set = 'SCARD',
  string = 'STRLEN'}
local function type_check_mismatch(key, kind)
  -- A number if the type is right, at half the cost of TYPE.
  if type(redis.pcall(SIZE[kind], key)) == 'number' then return nil end
  local is = redis.call('TYPE', key).ok
  if is == kind or is == 'none' then return nil end
  return {err = 'MISFIT key ' .. key .. ' is a ' .. is .. ' where a ' .. kind .. ' belongs'}
end

-- Fail the call if a key has another type. Each key is checked once.
local type_check_passed = {}
local function type_check_key(key, kind)
  if type_check_passed[key] then return end
  local wrong = type_check_mismatch(key, kind)
  if wrong then error(wrong) end
  type_check_passed[key] = true
end

-- Check all keys of the script that have a type; the loader gives `key_types`.
local asked = false
local function type_check_all()
  if asked then return end
  asked = true
  for key, kind in pairs(key_types()) do type_check_key(key, kind) end
end
