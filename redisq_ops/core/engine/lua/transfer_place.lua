-- Where an entry is from now on that comes from another queue: here under the id it had. `own` is what
-- goes along with it. Kinds whose entries are part of something take it in there, if that isn't barred.
-- KEYS: body
local function barred(own, state)
  return false
end

local function berth(id, payload, own)
  redis.call('HSET', body, id, payload)
  return id, 'ok'
end

-- The id that an entry of another queue has here, by what was said of it; the word of that, and what
-- else is kept there.
local function berthed(id, mark)
  return id, mark, ''
end
