-- One step of an operator's bulk move, by id. An entry is moved only if it is still in state `from`,
-- and didn't enter it after `high_water` (ms). An entry whose time is in the future is moved, too:
-- the server's clock was ahead when it was written, as before a failover.
-- `at`: the entry's score when it was chosen, `-` for any; with another score it is another entry of
-- that id. `span`: which entries of a plan the step covers, and which run sends it. `to`: a state,
-- `gone`, or `restore` (from trash to the state it had before: dead, delayed or waiting). `lease_ms`:
-- with `delayed` the ready time (ms). What entries were before goes to this step's undo list.
-- KEYS: undo_ op_
-- ARGV: caller seq from to high_water consumer lease_ms span
-- REST: id at
-- USES: idempotency transitions unfinished_operations concurrent_step config counters history
-- USES: audit_log record storage_score transfer_names
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns one word per row: moved | changed (in another state now) | late (entered it after high_water)
-- | away (in another queue, or on its way: only the undo of that move brings it back) | theirs (moved,
-- when another run sent this very step).
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return concurrent_step(reply) end
history_by = consumer
reply = {}
local ids, times, before, moved = {}, {}, {}, 0
local between = caller:find(TRANSFER_NAMES_MOVED) -- a move between two queues
for i = first, #ARGV, width do
  ids[#ids + 1], times[#times + 1] = ARGV[i], ARGV[i + 1]
end
local seen = {}
for k, r in ipairs(record_read(ids)) do
  local id = ids[k]
  -- mutant moves without looking again: not seen[id] and storage_score(id, from) => '0'
  -- mutant an id twice in a step: not seen[id] and =>
  local score = not seen[id] and storage_score(id, from)
  -- mutant score ignored: times[k] ~= '-' => false
  if not score or times[k] ~= '-' and tonumber(times[k]) ~= tonumber(score) then
    reply[k] = 'changed'
  -- mutant latecomers moved too: r.since > tonumber(high_water) => false
  elseif r.since > tonumber(high_water) and r.since <= now then
    reply[k] = 'late'
  elseif to == 'restore' and transfer_names_away(r.op)
    or to == 'gone' and from == 'trash' and unfinished_operations_hold(r.op) then
    reply[k] = 'away'
  else
    before[#before + 1] = table.concat({id, from, score, record_pack(r)}, ' ')
    r.op = caller
    local at, target = now, to
    if from == 'delayed' and to == 'trash' then
      r.ready = tonumber(score) -- so that it can be restored to its time
    elseif to == 'restore' then
      target = r.reason ~= '-' and 'dead' or r.ready > now and 'delayed' or 'waiting'
      at = target == 'delayed' and r.ready or now
    elseif to == 'waiting' and from == 'dead' then
      record_renew(r)
    elseif to == 'pending' then
      r.consumer = consumer
      r.receipt = counters_reserve('fence', 1) + 1 .. '-' .. caller
      at = now + tonumber(lease_ms)
    elseif to == 'delayed' then
      at = tonumber(lease_ms)
    end
    if target == 'waiting' or target == 'delayed' then r.ready = 0 end
    transitions_move(id, from, target, at, r)
    reply[k] = 'moved'
    moved = moved + 1
  end
  seen[id] = true
end
transitions_check()
if moved > 0 then
  if to ~= 'gone' then
    local list = undo_ .. caller .. ':' .. seq
    redis.call('RPUSH', list, unpack(before))
    if not between then redis.call('PEXPIRE', list, config.trash_ms) end
  end
  redis.call('HINCRBY', op_ .. caller, 'done', moved)
  history_note('op', table.concat({caller, from, to, moved}, '|'))
end
if between and #ids > 0 then -- the steps before this one have ended
  local last = redis.call('HGET', op_ .. caller, 'holding')
  if last and last ~= seq then
    unfinished_operations_expire(undo_ .. caller .. ':' .. last, config.trash_ms)
  end
  redis.call('HSET', op_ .. caller, 'landed', seq - 1, 'holding', seq)
  unfinished_operations_add(caller)
end
redis.call('HSET', op_ .. caller, 'steps', seq, 'span', span)
unfinished_operations_keep(caller) -- even if nobody has written the operation down
transitions_flush()
return idempotency_remember(reply)
