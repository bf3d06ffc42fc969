-- Put ids in, each with a payload or none (empty). One that waits already is `queued`: the latest
-- payload counts; one that is being worked on runs `again` after that; where each push is a run, any
-- id that is there does. One that is dead or purged is `new`: a push is a fresh start. To a caller who
-- knows an older `layout` of the shards, what isn't here is `elsewhere`, and left alone.
-- ARGV: caller seq layout
-- REST: id payload
-- USES: idempotency transitions bulk_write
-- LOOKS: queue spent again
-- Returns one word per row, or one for all: new | queued | again | elsewhere.
local said, late = replayed()
if late then return superseded end
if said then return said end
if conf.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
by = caller:match('^[^:]*')
said = {}
local ids, contents = {}, {}
local rows = (#ARGV - first + 1) / width
for k = 1, rows do ids[k], contents[k] = ARGV[first + 2 * k - 2], ARGV[first + 2 * k - 1] end
local newer = (tonumber(conf.layout) or 0) > tonumber(layout)
local had, some = redis.call('HMGET', body, unpack(ids)), false
for k = 1, rows do some = some or had[k] end
local lines = some and redis.call('HMGET', meta, unpack(ids)) or {}
local bodies, runs, owing, met, touched = {}, {}, {}, {}, {}
local fresh, come, n = 0, 0, 0
for k = 1, rows do
  local id = ids[k]
  local state = met[id] or had[k] and state_of(id, lines[k])
  local content = contents[k]
  local word = 'new'
  if state == 'transit' or newer and not state then
    word = 'elsewhere'
  elseif not state or state == 'dead' or state == 'trash' then
    if state then
      move(id, state, 'waiting', now, unpacked(nil))
      if not each then runs[#runs + 1] = id end
    else
      enter(id)
      woken = woken + 1
    end
    met[id] = 'waiting'
    fresh = fresh + 1
  elseif each then
    word = 'again'
    owing[#owing + 1] = id
  elseif state == 'pending' then
    word = 'again'
    if not met[id] and not next_run(id) then come = come + 1 end
    met[id] = 'pending'
    touched[#touched + 1], touched[#touched + 2] = id, content
  else
    word = 'queued'
    runs[#runs + 1] = id -- it begins after this push, so nothing has to follow it
    local r = unpacked(lines[k])
    if not met[id] and (r.op ~= '-' or r.lost > 0) then -- touched: an operator's undo leaves it alone
      r.op, r.lost = '-', 0 -- the run that follows is this push's: its own lease was never lost
      retain(id, r)
    end
    met[id] = state
  end
  if word == 'new' or word == 'queued' then
    bodies[n + 1], bodies[n + 2], n = id, content, n + 2
  end
  if every and word ~= 'elsewhere' then note('submitted', id) end
  said[k] = word
end
if fresh > 0 and conf.max_waiting > 0 then
  local waiting = room_waiting()
  if waiting + fresh > conf.max_waiting then
    return {err = 'FULL ' .. waiting .. ' entries wait and max_waiting is ' .. conf.max_waiting}
  end
end
ready()
if n > 0 then put_fields(body, bodies) end
if #runs > 0 and follows ~= false then redis.call('HDEL', again, unpack(runs)) end
if #touched > 0 then redis.call('HSET', again, unpack(touched)) end
for _, id in ipairs(owing) do once_more(id, 1) end
tally('i', fresh + come + #owing)
flush()
return remember_words(said)
