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
local reply = idempotency_replayed()
-- mutant a command sent again
if reply then return reply end
local rows, word, heard = {}, 'ok', 0
for i = first, #ARGV, width do
  local row = {ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]}
  -- mutant a command to another worker: not elements_hold(row, row[4]) => false
  if not elements_hold(row, row[4]) then word = 'changed' end
  rows[#rows + 1] = row
end
if word == 'ok' then
  -- mutant a command published after all: redis.call( => redis.pcall(
  -- mutant a command to nobody
  if channel ~= '' then heard = redis.call('PUBLISH', channel, message) end
  for _, row in ipairs(rows) do
    -- mutant a command in no key
    if row[4] ~= row[5] then elements_set(row, row[5]) end
  end
  -- mutant a command without a step
  redis.call('HSET', op_ .. caller, 'steps', seq)
  -- mutant a command kept for ever
  redis.call('PEXPIRE', op_ .. caller, 2592000000) -- even if nobody has written the operation down
  history_by = caller
  -- mutant a command without history
  history_note('op', caller .. '|' .. note)
  history_write()
end
reply = {word, tostring(heard)}
idempotency_remember(reply)
return reply
