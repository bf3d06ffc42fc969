-- Put a client's entries in, behind what it has waiting. The id is the guard: another client's, or
-- another payload under it, is refused; each payload comes with its client in front. To a caller who
-- knows an older `layout` of the shards, what isn't here is `elsewhere`, and left alone.
-- ARGV: caller seq client layout
-- REST: id payload
-- USES: idempotency transitions
-- Returns one word per row, or one for all: ok | same | exists | elsewhere.
local said, late = replayed()
if late then return superseded end
if said then return said end
if conf.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
local ids = {}
local rows, n = (#ARGV - first + 1) / width, 0
for k = 1, rows do ids[k] = ARGV[first + (k - 1) * width] end
by = caller:match('^[^:]*')
said = {}
local newer = (tonumber(conf.layout) or 0) > tonumber(layout)
local there = redis.call('HMGET', body, unpack(ids))
local put, fresh, contents = {}, {}, {}
for k = 1, rows do
  local id, content = ids[k], ARGV[first + (k - 1) * width + 1]
  local old = contents[id] or there[k]
  if old then
    said[k] = old == content and 'same' or 'exists'
  elseif newer then
    said[k] = 'elsewhere'
  else
    said[k] = 'ok'
    contents[id] = content
    n = n + 1
    fresh[n], put[2 * n - 1], put[2 * n] = id, id, content
    if every then note('submitted', id .. '|' .. client) end
  end
end
if #fresh > 0 then
  if conf.max_waiting > 0 then
    local waiting = counted.waiting or 0
    if waiting + #fresh > conf.max_waiting then
      return {err = 'FULL ' .. waiting .. ' entries wait and max_waiting is ' .. conf.max_waiting}
    end
  end
  must_be(c_ .. client, 'list')
  local a = account(client)
  if a.holes > 0 then must_be(holes, 'hash') end
  room_read()
  join(a, fresh)
  put_fields(body, put)
  tally('i', #fresh)
end
flush()
return remember_words(said)
