-- What Dramatiq writes when a message goes from one of its lists and sets to another. `e.member` is the
-- message's id there, the field of its hash.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_heartbeats
-- USES: messages remove_from_list put_into_list type_check
local function moves_fit(e)
  type_check_key(e.key, messages_type(e.key))
  type_check_key(messages_of(e), 'hash')
  type_check_key(list, 'list')
  type_check_key(list .. '.msgs', 'hash')
  type_check_key(t_heartbeats, 'zset')
end

local function moves_take_out(e, to)
  local digest, from, till, n, rest = e.stamp:match('^(%x+) (%d+) (%d+) (%d+) (.*)$')
  local messages = messages_of(e)
  local message = digest and messages_get(messages, e, digest)
  if not message then return nil end
  e.shown, e.again, e.digest = rest:sub(1, n), rest:sub(n + 1), digest
  e.stamp = e.stamp:sub(1, #e.stamp - #e.again)
  if to == 'delayed' then
    if till == '0' then return nil, 'invalid' end
    e.again = {message:sub(1, from), message:sub(till + 1)}
  elseif to ~= 'waiting' then
    e.again = nil
  elseif e.again == '' and not messages_fetched(e) then
    return nil, 'invalid'
  end
  if messages_fetched(e) then
    if redis.call('SISMEMBER', e.key, e.member) == 0 then return nil end
    if (messages_heartbeat(e) or 0) > now - SILENT then return nil, 'busy' end
    if e.dry then return true end
    return redis.call('SREM', e.key, e.member) == 1
  end
  if to == 'waiting' and redis.call('HEXISTS', list .. '.msgs', e.member) == 1 then return nil end
  if e.dry then return true end
  if messages_type(e.key) == 'list' then
    e.rank, e.left = tonumber(e.seen), left_of(e.key, e.member, tonumber(e.seen))
    local ok, why = out_of_list(e.key, e.member, e.rank)
    if not ok then return nil, why end
  else
    e.score = redis.call('ZSCORE', e.key, e.member)
    if not e.score or tonumber(e.score) ~= tonumber(e.seen) then return nil end
    redis.call('ZREM', e.key, e.member)
  end
  e.message = to ~= 'gone' and message or nil
  redis.call('HDEL', messages, e.member)
  return true
end

local function moves_put_in(e, to, at)
  local key, again = to == 'delayed' and e.key or list, e.again
  if to == 'delayed' then again = again[1] .. string.format('%.0f', at) .. again[2] end
  if not messages_fetched(e) then
    redis.call('HSET', key .. '.msgs', e.member, again)
    e.digest = redis.sha1hex(again)
  end
  e.again, e.went = nil, key
  redis.call('RPUSH', key, e.member)
  return key, e.member
end

local function moves_take_back(e, to, went, seen)
  if to == 'restore' then
    e.seen = seen or e.seen
    return moves_take_out(e, 'trash')
  end
  if not messages_get(went .. '.msgs', e, e.digest) then return nil end
  local ok, why = out_of_list(went, e.member, seen)
  if ok and not messages_fetched(e) then redis.call('HDEL', went .. '.msgs', e.member) end
  return ok, why
end

local function moves_restorable(e)
  if messages_fetched(e) then return messages_heartbeat(e) ~= nil end -- else nobody looks after that set
  return e.went == e.key or redis.call('HEXISTS', messages_of(e), e.member) == 0
end

local function moves_put_back(e)
  if not messages_fetched(e) then redis.call('HSET', messages_of(e), e.member, e.message) end
  if messages_type(e.key) == 'list' then
    into_list(e.key, e.member, e.left)
    return e.key, e.member
  elseif e.score then
    redis.call('ZADD', e.key, e.score, e.member)
  else
    redis.call('SADD', e.key, e.member)
  end
end
