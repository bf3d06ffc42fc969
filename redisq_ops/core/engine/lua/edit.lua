-- Give entries of one state other payloads. An entry is changed only if it has been in the state since
-- before `high_water` (ms) and its payload still has the SHA-1 `was`. The old payloads go to this
-- step's undo list.
-- KEYS: undo_ op_
-- ARGV: caller seq from high_water
-- REST: id was payload
-- USES: idempotency transitions config history audit_log record storage_payload storage_score
-- USES: storage_set_payload write_buffer
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- Returns one word per row: moved | changed (other state or payload) | late (entered the state later).
audit_log_check(caller)
local reply = idempotency_replayed()
-- mutant an edit done twice
if reply then return reply end
history_by = caller
reply = {}
local ids, before, seen = {}, {}, {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
for k, r in ipairs(record_read(ids)) do
  local id, at = ids[k], first + (k - 1) * width
  local had = storage_score(id, from) and storage_payload(id)
  -- mutant payloads changed unread: or redis.sha1hex(had) ~= ARGV[at + 1] =>
  if seen[id] or not had or redis.sha1hex(had) ~= ARGV[at + 1] then
    reply[k] = 'changed'
  -- mutant latecomers edited: r.since > tonumber(high_water) => false
  elseif r.since > tonumber(high_water) and r.since <= now then
    reply[k] = 'late'
  else
    seen[id] = true
    before[#before + 1] = table.concat({id, from, record_pack(r), had}, ' ')
    r.op = caller
    write_buffer_record(id, record_pack(r))
    storage_set_payload(id, ARGV[at + 2])
    reply[k] = 'moved'
  end
end
if #before > 0 then
  local list = undo_ .. caller .. ':' .. seq
  redis.call('RPUSH', list, unpack(before))
  redis.call('PEXPIRE', list, config.trash_ms)
  redis.call('HINCRBY', op_ .. caller, 'done', #before)
  history_note('op', table.concat({caller, from, 'edit', #before}, '|'))
end
redis.call('HSET', op_ .. caller, 'steps', seq)
redis.call('PEXPIRE', op_ .. caller, 2592000000) -- even if nobody has written the operation down
transitions_flush()
return idempotency_remember(reply)
