-- The circle of message ids with its `end-of-circle`, turned as Carmine does it: the last id is next
-- and goes to the front, unless its message is done; then everything that is left of the message is
-- removed. Which message is delivered doesn't depend on the circle here, so nothing waits for a lap.
-- Add messages that come into Carmine's sight; an id that is still in the circle (`stray`) stays there.
-- KEYS: messages backoffs nattempts circle finished stray
local function circle_add(ids)
  local fresh, back = {}, {}
  for i, there in ipairs(redis.call('SMISMEMBER', stray, unpack(ids))) do
    -- mutant twice in the circle: there == 1 and back or =>
    local list = there == 1 and back or fresh
    list[#list + 1] = ids[i]
  end
  if #back > 0 then redis.call('SREM', stray, unpack(back)) end
  if #fresh == 0 then return end
  if redis.call('EXISTS', circle) == 0 then redis.call('LPUSH', circle, 'end-of-circle') end
  redis.call('LPUSH', circle, unpack(fresh))
end

-- Examine the last `window` ids and turn the circle past the last one that can go. If fewer than
-- `enough` go, turn by `least` at any rate, so that an id that stays long delays no other. No further:
-- an id that is turned past before its message is done stays for a lap. Returns how many ids went.
local function circle_rotate(window, least, enough)
  local ids = redis.call('LRANGE', circle, -window, -1)
  if #ids == 0 then return 0 end
  local done = redis.call('SMISMEMBER', finished, unpack(ids))
  local strays, backed_off = redis.call('EXISTS', stray) == 1, redis.call('EXISTS', backoffs) == 1
  local left = strays and redis.call('SMISMEMBER', stray, unpack(ids)) or {}
  local over, held = {}, {}
  for i, id in ipairs(ids) do
    if done[i] == 1 then over[#over + 1] = id end
  end
  if #over > 0 and backed_off then
    for i, til in ipairs(redis.call('HMGET', backoffs, unpack(over))) do
      -- mutant collected before its time: (tonumber(til) or 0) > now => false
      held[over[i]] = (tonumber(til) or 0) > now -- equal messages are refused until then
    end
  end
  local keep, gone, dropped, turned, kept_then = {}, {}, {}, 0, 0
  for i = #ids, 1, -1 do
    local id = ids[i]
    -- mutant never collected: done[i] == 1 and not held[id] => false
    if done[i] == 1 and not held[id] then
      gone[#gone + 1] = id
      turned, kept_then = #ids - i + 1, #keep
    elseif left[i] == 1 then
      dropped[#dropped + 1] = id
      turned, kept_then = #ids - i + 1, #keep
    else
      keep[#keep + 1] = id
    end
  end
  if #gone + #dropped < enough and turned < math.min(least, #ids) then
    kept_then = kept_then + math.min(least, #ids) - turned
    turned = math.min(least, #ids)
  end
  redis.call('LTRIM', circle, 0, -turned - 1)
  if kept_then > 0 then redis.call('LPUSH', circle, unpack(keep, 1, kept_then)) end
  if #gone > 0 then
    redis.call('HDEL', messages, unpack(gone))
    if backed_off then redis.call('HDEL', backoffs, unpack(gone)) end
    redis.call('HDEL', nattempts, unpack(gone))
    redis.call('SREM', finished, unpack(gone))
  end
  if #dropped > 0 then redis.call('SREM', stray, unpack(dropped)) end
  return #gone + #dropped
end

-- Every take calls it: the more ids can go, the further it turns.
local function circle_turn()
  local n = redis.call('SCARD', finished) + redis.call('SCARD', stray)
  if n == 0 then return end
  circle_rotate(math.min(2 * n + 16, 500), math.min(16 + math.floor(n / 4), 500), n / 4)
end
