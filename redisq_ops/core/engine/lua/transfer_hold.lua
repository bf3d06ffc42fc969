-- Hold entries for another shard: out of their state and into `transit`, where no worker sees them,
-- under a mark that stays the same if they are held again. Pending entries stay, and every entry does if
-- the caller's layout of the shards is out of date. A done entry is held while its id still refuses
-- submissions; after that it is just removed. `transit`: id -> mark, state and score.
-- KEYS: transit body meta err
-- ARGV: layout
-- REST: id
-- USES: transitions config counters list_of state_zsets storage_following storage_here storage_moved
-- USES: storage_payload storage_score write_buffer
-- Returns as many rows as fit a call: word (held | stays | gone) mark state score record payload error
-- following (after a plus), the last seven empty where there is nothing.
-- mutant moved while it is worked on: 'done' => 'done', 'pending'
local STATES = {'delayed', 'waiting', 'dead', 'trash', 'done'}
-- mutant departed by an old layout: (tonumber(config.layout) or 0) > tonumber(layout) => false
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local reply, size, going, ids = {}, 0, {}, {unpack(ARGV, first)}

local function leave(id)
  for _, state in ipairs(STATES) do
    local at = storage_score(id, state)
    -- mutant what is done is guarded at its old home alone: and tonumber(at) <= now =>
    if at and state == 'done' and tonumber(at) <= now then
      storage_moved(id, state, 'gone')
    elseif at then
      local zset = state_zsets[state]
      -- mutant departed and still there: table.insert(list_of(write_buffer_drops, zset), id) =>
      if zset then table.insert(list_of(write_buffer_drops, zset), id) end
      -- mutant departed and in sight
      storage_moved(id, state, 'transit')
      local line = table.concat({counters_reserve('fence', 1) + 1, state, at}, ' ')
      going[#going + 1], going[#going + 2] = id, line
      return line
    end
  end
end

local records, errors = redis.call('HMGET', meta, unpack(ids)), redis.call('HMGET', err, unpack(ids))
local following, before = storage_following(ids), redis.call('HMGET', transit, unpack(ids))
for k, id in ipairs(ids) do
  local line = not newer and (before[k] or leave(id))
  local row = {'gone', '', '', '', '', '', '', ''}
  if line then
    local mark, state, at = line:match('^(%S+) (%S+) (%S+)$')
    -- mutant each departure has a mark of its own:
    --   mark => redis.call('HINCRBY', stat, 'fence', 1) .. ''
    row = {'held', mark, state, at, records[k] or '', storage_payload(id) or '', errors[k] or '',
      following[k] and '+' .. following[k] or ''}
    size = size + #row[6] + #row[7]
  elseif newer and storage_here(id) or redis.call('HEXISTS', body, id) == 1
    or storage_score(id, 'pending') then
    row[1] = 'stays'
  end
  for _, word in ipairs(row) do reply[#reply + 1] = word end
  if size > 262144 then break end
end
transitions_check()
if #going > 0 then redis.call('HSET', transit, unpack(going)) end
transitions_flush()
return reply
