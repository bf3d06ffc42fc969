-- Whether sub-requests are in a state.
-- KEYS: lease delay dead trash again_
-- IMPLEMENTS: storage_score storage_still_in
-- USES: request state_zsets

-- The score of a waiting sub-request is the time when its request was created.
local function storage_score(id, state)
  local rid, n = request_split(id)
  local q = rid and request_get(rid)
  -- mutant an id under another spelling: or rid .. '/' .. n ~= id =>
  if not q or not n or rid .. '/' .. n ~= id then return nil end -- 07 and 0x7 aren't 7
  if state ~= 'waiting' then
    local zset = ({pending = lease, delayed = delay, dead = dead, trash = trash})[state]
    return zset and redis.call('ZSCORE', zset, id) or nil
  end
  if n > q.total or n < 1 then return nil end
  local entry, began = n .. '-0', string.format('%.0f', q.created)
  if n > q.read then -- never delivered: purged if in the trash or gone
    local there = not redis.call('ZSCORE', trash, id) and redis.call('XRANGE', q.stream, entry, entry)
    -- mutant moved when purged for good: there and there[1] and began or nil => began
    return there and there[1] and began or nil
  end
  local held = q.again > 0 and redis.call('ZSCORE', again_ .. rid, n)
  return held and began or nil
end

-- A delivery removes the operation's name from the record, so an entry that waited and still has
-- the name waits now. To look for each in the consumer group would cost more than the rest.
local function storage_still_in(ids, state)
  if state == 'waiting' then return nil end
  local found = redis.call('ZMSCORE', state_zsets[state], unpack(ids))
  for k = 1, #ids do found[k] = found[k] and request_locate(ids[k]) end
  return found
end
