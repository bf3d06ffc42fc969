-- What Dramatiq writes when a message goes from one of its lists and sets to another. `e.member` is the
-- message's id there, the field of its hash.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_heartbeats
-- USES: messages element remove_from_list type_check
local function moves_fit(e)
  type_check_key(e.key, messages_type(e.key))
  -- mutant type check off
  type_check_key(messages_of(e), 'hash')
  -- mutant list's type check off
  type_check_key(list, 'list')
  type_check_key(list .. '.msgs', 'hash')
  type_check_key(t_heartbeats, 'zset')
end

local function moves_take_out(e, to)
  local messages, kind = messages_of(e), messages_type(e.key)
  local message = messages_get(messages, e, e.stamp)
  if not message then return nil end
  if kind == 'set' then
    if redis.call('SISMEMBER', e.key, e.member) == 0 then return nil end
    if (messages_heartbeat(e) or 0) > now - SILENT then return nil, 'busy' end
    return e.dry or element_leaves(e, kind)
  end
  if to == 'waiting' and redis.call('HEXISTS', list .. '.msgs', e.member) == 1 then return nil end
  if e.dry then return true end
  local ok, why = element_leaves(e, kind)
  if not ok then return nil, why end
  if to == 'trash' then e.shown = message elseif to ~= 'gone' then e.message = message end
  -- mutant message left
  redis.call('HDEL', messages, e.member)
  return true
end

local function moves_put_in(e, to)
  e.went = to == 'delayed' and e.key or list
  if not e.set then
    redis.call('HSET', e.went .. '.msgs', e.member, e.put)
    e.stamp, e.put = redis.sha1hex(e.put), nil
  end
  -- mutant wrong end: RPUSH => LPUSH
  redis.call('RPUSH', e.went, e.member)
  return e.went, e.member
end

local function moves_take_back(e, to, went, seen)
  -- mutant undo of another message
  if not messages_get(went .. '.msgs', e, e.stamp) then return nil end
  local ok, why = out_of_list(went, e.member, seen)
  if ok and not e.set then redis.call('HDEL', went .. '.msgs', e.member) end
  return ok, why
end

local function moves_restorable(e)
  if messages_fetched(e) then return messages_heartbeat(e) ~= nil end -- else nobody looks after that set
  -- mutant id that came again:
  --   e.went == e.key or redis.call('HEXISTS', messages_of(e), e.member) == 0 => true
  return e.went == e.key or redis.call('HEXISTS', messages_of(e), e.member) == 0
end

local function moves_put_back(e)
  -- mutant undo forgets the message:
  --   redis.call('HSET', messages_of(e), e.member, e.message or e.shown) =>
  if not e.set then redis.call('HSET', messages_of(e), e.member, e.message or e.shown) end
  return element_returns(e)
end
