-- Give entries of a state other payloads, each only if it has been in it since before `high_water`
-- (ms) and its payload is the one that was read (`was`: its SHA-1). What was before goes to this
-- step's undo list.
-- KEYS: undo_ op_
-- ARGV: caller seq from high_water
-- REST: id was payload
-- USES: idempotency transitions content
-- Returns one word per row: moved | changed | late, as `move` does.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
said = {}
local ids, before, seen = {}, {}, {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
for k, r in ipairs(records(ids)) do
  local id, at = ids[k], first + (k - 1) * width
  local had = room_score(id, from) and content(id)
  if seen[id] or not had or redis.sha1hex(had) ~= ARGV[at + 1] then
    said[k] = 'changed'
  elseif r.since > tonumber(high_water) and r.since <= now then
    said[k] = 'late'
  else
    seen[id] = true
    before[#before + 1] = table.concat({id, from, packed(r), had}, ' ')
    r.op = caller
    keep(id, packed(r))
    rewrite(id, ARGV[at + 2])
    said[k] = 'moved'
  end
end
if #before > 0 then
  local list = undo_ .. caller .. ':' .. seq
  redis.call('RPUSH', list, unpack(before))
  redis.call('PEXPIRE', list, conf.trash_ms)
  redis.call('HINCRBY', op_ .. caller, 'done', #before)
  note('op', table.concat({caller, from, 'edit', #before}, '|'))
end
redis.call('HSET', op_ .. caller, 'steps', seq)
redis.call('PEXPIRE', op_ .. caller, 2592000000) -- also what nobody entered into the journal
flush()
return remember(said)
