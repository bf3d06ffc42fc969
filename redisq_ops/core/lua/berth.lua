-- Where an entry is from now on that comes from another queue: here under the id it had. (Kinds whose
-- entries belong to something are given its name, `into`, and call them by that.)
-- KEYS: body
local function barred(into)
  return false
end

local function berth(id, into, payload)
  redis.call('HSET', body, id, payload)
  return id, 'ok'
end

-- The id that an entry of another queue has here, by what was said of it, and the word of that.
local function berthed(id, mark)
  return id, mark, ''
end
