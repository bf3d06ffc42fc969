-- What an element of the list turns out to be when it is met: to be delivered, to be left alone, or not
-- an entry at all. A foreign producer may have pushed an id that is there, or bytes that are no id.
-- USES: transitions
local taken, found, payloads, held, got = {}, {}, {}, {}, 0
local clean -- no element is spent, no id on its way elsewhere; asked before the first is met

-- The name a dead letter has whose element is no legal id; nil for one that is legal.
local function name_of(raw)
  if #raw >= 1 and #raw <= 128 and not raw:find('[^!-~]') and not raw:find('[{}*|/]') then return nil end
  local shown = raw:sub(1, 64):gsub('[^%w._-]', function(c) return string.format('%%%02X', c:byte()) end)
  return 'invalid:' .. shown:sub(1, 80) .. ':' .. redis.sha1hex(raw):sub(1, 16)
end

local function bury(name, raw)
  local r = unpacked(nil)
  r.first, r.reason = now, 'invalid'
  redis.call('HSET', body, name, raw)
  redis.call('HSET', err, name, '{"type": "InvalidId", "message": "pushed by another producer as an '
    .. 'id, which it can\'t be: the payload has its bytes"}')
  note('dead', name .. '|invalid')
  move(name, 'foreign', 'dead', now, r)
end

local function take_up(id, line, content)
  got = got + 1
  taken[got], found[got], payloads[got], held[id] = id, line, content, true
end

-- Pushed once more by someone who can't know that it is there: no push is lost.
local function owe(id, state, content)
  if each then
    once_more(id, 1)
  elseif state == 'pending' then
    redis.call('HSETNX', again, id, content)
  end
  follows = true
end

-- Whether the element stays in a list that rotates.
local function meet(id, line, content)
  if not clean and unspend(id) then return false end
  local state = held[id] and 'pending' or content and state_of(id, line)
  if rotate and (state == 'pending' or state == 'delayed' or state == 'transit') then return true end
  if not state then
    local name = name_of(id)
    if name then
      local known = redis.call('HGET', body, name)
      if known then
        owe(name, held[name] and 'pending' or state_of(name, redis.call('HGET', meta, name)), known)
      else
        bury(name, id)
      end
      return false
    end
    redis.call('HSET', body, id, '')
    take_up(id, nil, '')
  elseif state == 'waiting' then
    take_up(id, line, content)
  elseif state == 'dead' or state == 'trash' then -- a push is a fresh start
    redis.call('ZREM', zset_of[state], id)
    redis.call('HDEL', err, id)
    if not each then redis.call('HDEL', again, id) end
    take_up(id, nil, content)
  elseif state == 'transit' then -- not here and not there yet: it is met again
    enter(id)
  else
    owe(id, state, content or '')
  end
  return true
end
