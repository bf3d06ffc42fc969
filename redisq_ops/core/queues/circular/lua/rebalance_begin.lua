-- Begin the move of ids to another shard: out of their state and into `transit`, where no worker sees
-- them, under a mark that stays the same if the move is begun again. Pending ids stay, and every id
-- does if the caller's layout of the shards is out of date.
-- KEYS: body meta transit again err
-- ARGV: layout
-- REST: id
-- USES: transitions config counters elements list_changes state state_zsets
-- Returns as many rows as fit a call: word (off | held | gone) mark state score record payload error
-- following (after a plus), the last six empty where there is nothing.
local reply, size = {}, 0
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local function answer(...)
  for _, word in ipairs({...}) do reply[#reply + 1] = word end
end
for i = first, #ARGV do
  local id = ARGV[i]
  local content, record = redis.call('HGET', body, id), redis.call('HGET', meta, id)
  local state = content and not newer and state_of(id, record)
  if state and state ~= 'pending' and state ~= 'transit' then
    local zset = state_zsets[state]
    local at = zset and redis.call('ZSCORE', zset, id) or '0'
    redis.call('HSET', transit, id,
      table.concat({counters_reserve('fence', 1) + 1, state, at}, ' '))
    state_moving = true
    if zset then redis.call('ZREM', zset, id) end
    if elements_reside(state) then list_changes_leaving[#list_changes_leaving + 1] = id end
    state = 'transit'
  end
  if state == 'transit' then
    local mark, was, at = redis.call('HGET', transit, id):match('^(%S+) (%S+) (%S+)$')
    local row = redis.call('HGET', again, id)
    answer('off', mark, was, at, record or '', content, redis.call('HGET', err, id) or '',
      row and '+' .. row or '')
    size = size + #content
  else
    answer(content and 'held' or 'gone', '', '', '', '', '', '', '')
  end
  if size > 262144 then break end
end
transitions_flush()
return reply
