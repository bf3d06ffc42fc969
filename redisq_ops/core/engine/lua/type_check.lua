-- A key of another type in the way. What a script has written stays when it fails, so who may meet such
-- a key asks before the first write. Nil, or an error that names the key.
local SIZE = {zset = 'ZCARD', hash = 'HLEN', list = 'LLEN', stream = 'XLEN', set = 'SCARD',
  string = 'STRLEN'}
local function misfit(key, kind)
  -- A number where the type is right: half as dear as to ask for the type.
  if type(redis.pcall(SIZE[kind], key)) == 'number' then return nil end
  local is = redis.call('TYPE', key).ok
  if is == kind or is == 'none' then return nil end
  return {err = 'MISFIT key ' .. key .. ' is a ' .. is .. ' where a ' .. kind .. ' belongs'}
end

-- The call fails where a key is of another type. Each is asked for once.
local fitting = {}
local function must_be(key, kind)
  if fitting[key] then return end
  local wrong = misfit(key, kind)
  if wrong then error(wrong) end
  fitting[key] = true
end

-- Ask of all keys that have a type (`kinds` is the loader's).
local asked = false
local function fit()
  if asked then return end
  asked = true
  for key, kind in pairs(kinds()) do must_be(key, kind) end
end
