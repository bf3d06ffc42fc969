-- One step of an operation: send a command to the owner's workers, if every element has the value that
-- was read. It is published before anything is written: where that is refused, nothing has changed.
-- `note`: what the history says of it. `channel`: empty if workers read the command from a key.
-- KEYS: op_
-- ARGV: caller seq note channel message
-- REST: kind key member before after
-- USES: idempotency history audit_log elements
-- ENTRIES: op_{caller}=hash
-- FLAGS: allow-oom
-- Returns: {ok | changed (an element has another value), how many clients heard it}.
audit_log_check(caller)
local reply, late = idempotency_replayed()
if late then return idempotency_superseded end
if reply then return reply end
local rows, word, heard = {}, 'ok', 0
for i = first, #ARGV, width do
  local row = {ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]}
  if not elements_hold(row, row[4]) then word = 'changed' end
  rows[#rows + 1] = row
end
if word == 'ok' then
  if channel ~= '' then heard = redis.call('PUBLISH', channel, message) end
  for _, row in ipairs(rows) do
    if row[4] ~= row[5] then elements_set(row, row[5]) end
  end
  redis.call('HSET', op_ .. caller, 'steps', seq)
  redis.call('PEXPIRE', op_ .. caller, 2592000000) -- even if nobody has written the operation down
  history_by = caller
  history_note('op', caller .. '|' .. note)
  history_write()
end
reply = {word, tostring(heard)}
idempotency_remember(reply)
return reply
