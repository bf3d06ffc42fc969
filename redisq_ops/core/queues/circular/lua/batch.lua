-- The batch that a take collects: `batch_ids`, their records (`batch_lines`) and payloads, `batch_size`
-- of them; `batch_held` has the ids. `batch_examine` decides what an element of the list is: an entry
-- to deliver, one to leave alone, or no entry at all. A foreign producer may have pushed an id that is
-- already here, or bytes that are no id.
-- KEYS: body err again meta
-- USES: transitions elements history list_changes record state state_zsets
local batch_ids, batch_lines, batch_payloads, batch_held, batch_size = {}, {}, {}, {}, 0
local batch_clean -- no element is spent, no id in transit; set before the first is examined

-- The name of the dead letter for an element that is no legal id; nil for a legal one.
local function name_of(raw)
  if #raw >= 1 and #raw <= 128 and not raw:find('[^!-~]') and not raw:find('[{}*|/]') then return nil end
  local shown = raw:sub(1, 64):gsub('[^%w._-]', function(c) return string.format('%%%02X', c:byte()) end)
  return 'invalid:' .. shown:sub(1, 80) .. ':' .. redis.sha1hex(raw):sub(1, 16)
end

local function bury(name, raw)
  local r = record_unpack(nil)
  r.first, r.reason = now, 'invalid'
  redis.call('HSET', body, name, raw)
  redis.call('HSET', err, name, '{"type": "InvalidId", "message": "pushed by another producer as an '
    .. 'id, which it can\'t be: the payload has its bytes"}')
  history_note('dead', name .. '|invalid')
  transitions_move(name, 'foreign', 'dead', now, r)
end

local function batch_add(id, line, content)
  batch_size = batch_size + 1
  batch_ids[batch_size], batch_lines[batch_size] = id, line
  batch_payloads[batch_size], batch_held[id] = content, true
end

-- Pushed again by a producer that can't know that the id is here: no push is lost.
local function owe(id, state, content)
  if elements_each then
    state_run_again(id, 1)
  elseif state == 'pending' then
    redis.call('HSETNX', again, id, content)
  end
  state_follows = true
end

-- Returns whether the element stays in a list that rotates.
local function batch_examine(id, line, content)
  -- mutant purged elements delivered: not batch_clean and elements_unspend(id) => false
  if not batch_clean and elements_unspend(id) then return false end
  -- mutant an id twice in a take: batch_held[id] and 'pending' or =>
  local state = batch_held[id] and 'pending' or content and state_of(id, line)
  -- mutant held ids leave a list that turns: state == 'delayed' or =>
  if elements_rotate and (state == 'pending' or state == 'delayed' or state == 'transit') then
    return true
  end
  if not state then
    local name = name_of(id)
    if name then
      local known = redis.call('HGET', body, name)
      if known then
        local is = batch_held[name] and 'pending' or state_of(name, redis.call('HGET', meta, name))
        owe(name, is, known)
      else
        -- mutant illegal ids thrown away
        bury(name, id)
      end
      return false
    end
    redis.call('HSET', body, id, '')
    batch_add(id, nil, '')
  elseif state == 'waiting' then
    batch_add(id, line, content)
  elseif state == 'dead' or state == 'trash' then -- a push is a fresh start
    redis.call('ZREM', state_zsets[state], id)
    redis.call('HDEL', err, id)
    if not elements_each then redis.call('HDEL', again, id) end
    batch_add(id, nil, content)
  elseif state == 'transit' then -- in neither shard yet: it is examined again later
    list_changes_enter(id)
  else
    -- mutant a foreign push forgotten
    owe(id, state, content or '')
  end
  return true
end
