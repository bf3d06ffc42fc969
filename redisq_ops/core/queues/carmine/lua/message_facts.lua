-- `message_facts(ids)`: for each id that is about to be enqueued, `state` in Carmine's words, or dead,
-- trash, nx (not here), elsewhere (on its way to another shard, or not here and the caller's `layout`
-- is out of date), unknown (written by another program); `over`: until when equal messages are refused;
-- `follows`: newer content of it waits already.
-- KEYS: messages backoffs finished body next delay lease dead trash
-- NEEDS: layout
-- USES: visible config
-- mutant enqueued by an old layout: (tonumber(config.layout) or 0) > tonumber(layout) => false
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local ABSENT = newer and 'elsewhere' or 'nx'

local function out_of_sight(id)
  if redis.call('HEXISTS', body, id) == 0 then return ABSENT end
  if redis.call('ZSCORE', dead, id) then return 'dead' end
  -- mutant refused as dead between two shards: elsewhere => dead
  return redis.call('ZSCORE', trash, id) and 'trash' or 'elsewhere'
end

local NEW = {state = ABSENT} -- the most common case; this table is never changed

local function message_facts(ids)
  local known, any, hidden = {}, false, redis.call('EXISTS', body) == 1
  local contents = redis.call('HMGET', messages, unpack(ids))
  for i = 1, #ids do any = any or contents[i] end
  for i, id in ipairs(ids) do
    local state = contents[i] and 'unknown' or hidden and out_of_sight(id) or ABSENT
    known[id] = (any or hidden) and {state = state} or NEW
  end
  if not any then return known end
  local ready = redis.call('ZMSCORE', delay, unpack(ids))
  local held = redis.call('ZMSCORE', lease, unpack(ids))
  local done = redis.call('SMISMEMBER', finished, unpack(ids))
  local coming = visible_follows() and redis.call('HMGET', next, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local it = known[id]
    it.follows = coming[i] and true
    if done[i] == 1 then
      it.over = tonumber(redis.call('HGET', backoffs, id)) or 0
      it.state = it.over > now and 'done-with-backoff' or newer and ABSENT or 'done-awaiting-gc'
    elseif held[i] then
      it.state = coming[i] and 'locked-with-requeue' or 'locked'
    elseif ready[i] then
      it.state = tonumber(ready[i]) > now and 'queued-with-backoff' or 'queued'
    end
  end
  return known
end
