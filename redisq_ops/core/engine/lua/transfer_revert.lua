-- Take out what a move brought, as far as nobody touched it since: `to` the trash, where it waits until
-- it is back where it came from, then `gone`; or `back` from the trash, when it can't come back there.
-- KEYS: land_
-- ARGV: caller seq op step from to
-- REST: id
-- USES: idempotency transitions transfer_place unfinished_operations
-- FLAGS: allow-oom
-- Returns one word per row: moved | changed.
local said, late = replayed()
if late then return superseded end
if said then return said end
by, said = caller, {}
local list, marks = land_ .. op .. ':' .. step, {}
local words, ids, rest = redis.call('HMGET', list, unpack(ARGV, first)), {}, {}
for k = 1, #words do ids[k], words[k], rest[k] = berthed(ARGV[first + k - 1], words[k]) end
local function mark(k, word)
  marks[#marks + 1], marks[#marks + 2] = ARGV[first + k - 1], word .. rest[k]
end
for k, r in ipairs(records(ids)) do
  local id, put_away = ids[k], room_score(ids[k], 'trash')
  said[k] = 'changed'
  if words[k] == 'withdrawn' and put_away and r.op:find('^undo%-') then -- in an earlier step or run
    if to == 'gone' then
      move(id, 'trash', 'gone', 0, r)
    elseif to == 'back' then
      local is = r.reason ~= '-' and 'dead' or r.ready > now and 'delayed' or 'waiting'
      local at = is == 'delayed' and r.ready or now
      r.op, r.ready = op, 0
      move(id, 'trash', is, at, r)
      mark(k, 'ok')
    end
    said[k] = 'moved'
  elseif words[k] == 'ok' and r.op == op and to == 'trash' then
    local at = from
    local score = room_score(id, at)
    if not score and from == 'delayed' then
      at = 'waiting'
      score = room_score(id, at)
    end
    if score then
      r.op = caller
      if from == 'delayed' then r.ready = tonumber(score) end
      move(id, at, 'trash', now, r)
      mark(k, 'withdrawn')
      said[k] = 'moved'
    end
  end
end
ready()
if #marks > 0 then
  redis.call('HSET', list, unpack(marks))
  begin_operation(op)
end
flush()
return remember(said)
