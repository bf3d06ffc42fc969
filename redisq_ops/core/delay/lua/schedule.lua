-- Put entries in for a time. `at` is a ready time (ms), or +ms from now. The mode says what to do
-- when the id is there: `new` refuses another payload or time, `move` reschedules (a pending entry
-- runs again at the new time after its ack).
-- ARGV: caller seq mode
-- REST: id at payload
-- USES: guard moves
-- Returns two words per row: ok | same | moved | again | exists, and the ready time.
local said, late = replayed()
if late then return superseded end
if said then return said end
if conf.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
local rows = (#ARGV - first + 1) / width
local ids = {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
if conf.max_waiting > 0 then
  local there = redis.call('ZCARD', delay)
  if there + rows > conf.max_waiting then
    return {err = 'FULL ' .. there .. ' entries wait and max-waiting is ' .. conf.max_waiting}
  end
end
by = caller:match('^[^:]*')
said = {}
local top = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local soonest = nil
local put, bodies, fresh = {}, {}, 0
local olds = redis.call('HMGET', body, unpack(ids))
for k, id in ipairs(ids) do
  local at, content = ARGV[first + (k - 1) * width + 1], ARGV[first + (k - 1) * width + 2]
  local relative = at:match('^%+(%d+)$')
  local ready = relative and now + tonumber(relative) or tonumber(at)
  local word = 'ok'
  local there = bodies[id] or olds[k]
  if there then
    local when = redis.call('ZSCORE', delay, id)
    if mode == 'move' and when then
      word = 'moved'
    elseif mode == 'move' and redis.call('ZSCORE', lease, id) then
      redis.call('HSET', next, id, string.format('%.0f', ready) .. ' ' .. content)
      word = 'again'
    elseif there == content and (relative or not when or tonumber(when) == ready) then
      word, ready = 'same', when and tonumber(when) or 0
    else
      word, ready = 'exists', when and tonumber(when) or 0
    end
  end
  if word == 'ok' or word == 'moved' then
    put[#put + 1], put[#put + 2] = ready, id
    bodies[#bodies + 1], bodies[#bodies + 2] = id, content
    bodies[id] = content
    if word == 'ok' then fresh = fresh + 1 end
    if not soonest or ready < soonest then soonest = ready end
    note('submitted', id .. '|' .. string.format('%.0f', ready))
  end
  said[#said + 1] = word
  said[#said + 1] = string.format('%.0f', ready)
end
if #put > 0 then
  redis.call('HSET', body, unpack(bodies))
  redis.call('ZADD', delay, unpack(put))
  tally('i', fresh)
  -- Someone who sleeps must learn of a time before the one it sleeps to.
  if not top or soonest < tonumber(top) or soonest <= now then wake_workers(soonest <= now and fresh or 1) end
end
flush()
return remember(said)
