-- Begin the move of entries to another shard: out of their state and into `transit`, where no worker
-- sees them, under a mark that stays the same if the move is begun again. Pending entries stay, and
-- every entry does if the caller's layout of the shards is out of date.
-- KEYS: transit body delay dead trash meta err next
-- ARGV: layout
-- REST: id
-- USES: config counters
-- Returns as many rows as fit a call: word (off | held | gone) mark state score record payload error
-- following, the last six empty where there is nothing.
local reply, size = {}, 0
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local function answer(...)
  for _, word in ipairs({...}) do reply[#reply + 1] = word end
end
for i = first, #ARGV do
  local id = ARGV[i]
  local content = redis.call('HGET', body, id)
  local line = not newer and redis.call('HGET', transit, id)
  if content and not line and not newer then
    for state, zset in pairs({delayed = delay, dead = dead, trash = trash}) do
      local at = redis.call('ZSCORE', zset, id)
      if at then
        line = table.concat({counters_reserve('fence', 1) + 1, state, at}, ' ')
        redis.call('HSET', transit, id, line)
        redis.call('ZREM', zset, id)
      end
    end
  end
  if line then
    local mark, state, at = line:match('^(%S+) (%S+) (%S+)$')
    answer('off', mark, state, at, redis.call('HGET', meta, id) or '', content,
      redis.call('HGET', err, id) or '', redis.call('HGET', next, id) or '')
    size = size + #content
  else
    answer(content and 'held' or 'gone', '', '', '', '', '', '', '')
  end
  if size > 262144 then break end
end
counters_write()
return reply
