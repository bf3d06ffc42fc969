-- Begin the move of messages to another shard: out of their state and of Carmine's sight, and into
-- `transit`, where no worker sees them, under a mark that stays the same if the move is begun again.
-- Pending messages stay, and every message does if the caller's layout of the shards is out of date. A
-- done message is moved while equal ones are refused; after that it is only removed.
-- KEYS: transit finished lease dead trash backoffs delay messages body meta err next
-- ARGV: layout
-- REST: id
-- USES: transitions config counters state_zsets visible
-- Returns as many rows as fit a call: word (off | held | gone) mark state score record payload error
-- following (after a plus), the last six empty where there is nothing.
local reply, size = {}, 0
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local function answer(...)
  for _, word in ipairs({...}) do reply[#reply + 1] = word end
end

-- A message's state and score.
local function standing(id, sighted)
  if not sighted then
    local at = redis.call('ZSCORE', dead, id)
    if at then return 'dead', at end
    return 'trash', redis.call('ZSCORE', trash, id)
  elseif redis.call('SISMEMBER', finished, id) == 1 then
    return 'done', redis.call('HGET', backoffs, id) or '0'
  end
  return 'delayed', redis.call('ZSCORE', delay, id)
end

for i = first, #ARGV do
  local id = ARGV[i]
  local sighted = redis.call('HGET', messages, id)
  local content = sighted or redis.call('HGET', body, id)
  local line = not newer and redis.call('HGET', transit, id)
  if content and not line and not newer then
    local state, at = standing(id, sighted)
    local over = state == 'done' and tonumber(at) <= now
    if at and sighted then visible_leave(id) end
    if at and not over then
      line = table.concat({counters_reserve('fence', 1) + 1, state, at}, ' ')
      redis.call('HSET', transit, id, line)
      redis.call('HSET', body, id, content)
    end
    if state == 'done' then
      redis.call('SREM', finished, id)
    elseif at then
      redis.call('ZREM', state_zsets[state], id)
    end
  end
  if line then
    local mark, state, at = line:match('^(%S+) (%S+) (%S+)$')
    local row = redis.call('HGET', next, id)
    answer('off', mark, state, at, redis.call('HGET', meta, id) or '', content,
      redis.call('HGET', err, id) or '', row and '+' .. row or '')
    size = size + #content
  else
    local stays = content and (newer or redis.call('ZSCORE', lease, id))
    answer(stays and 'held' or 'gone', '', '', '', '', '', '', '')
  end
  if size > 262144 then break end
end
transitions_flush()
return reply
