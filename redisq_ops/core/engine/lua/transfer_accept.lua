-- Accept entries from elsewhere, each once. `origin`, where from: a `queue` (a move), a `shard` of this
-- queue, a `delay` set that hands over, or a `file`. From a shard nothing is new, so a full or draining
-- queue accepts it. Only a move has results full and closed; else the call fails and accepts nothing.
-- An id that is here already stays as it is, unless it is only a copy (`transfer_memory_copy`).
-- `mark`: see transfer_memory.lua; of a file's row what the history says. `state`: `-` if the caller
-- knows that the id is taken. `score`: empty for now.
-- KEYS: op_ seen err
-- ARGV: origin op step keep_ms layout
-- REST: id mark state score record payload error following
-- USES: transitions transfer_memory config history audit_log record storage_check_arrival registered
-- USES: storage_here storage_merge storage_next_runs storage_place storage_refuses storage_waiting_count
-- USES: transfer_enter unfinished_operations
-- ENTRIES: op_{op}=hash land_{op}:{step}=hash
-- Returns one word per row: ok | same (that mark was accepted before) | exists | full | closed |
-- cancelled (undone before it came) | elsewhere (the caller's layout of the shards is out of date).
registered_check()
local moved, inside, ids, marks, kept = origin == 'queue', origin == 'shard', {}, {}, op ~= ''
for i = first, #ARGV, width do ids[#ids + 1], marks[#marks + 1] = ARGV[i], ARGV[i + 1] end
if kept then audit_log_check(op) end
history_by = kept and op or 'transport'
local known = transfer_memory_known(op, step, ids, marks)
-- mutant arrived by an old layout: (tonumber(config.layout) or 0) > tonumber(layout) => false
local newer, lines = (tonumber(config.layout) or 0) > tonumber(layout), kept and record_read(ids)
local most, waiting, live, cleared = config.max_waiting, storage_waiting_count(), 0, false
local reply, results, accepted, chosen = {}, {}, {}, {}
for k, id in ipairs(ids) do
  local at, word = first + (k - 1) * width, known[k] or newer and 'elsewhere'
  if not word then
    local state, payload, own, here = ARGV[at + 2], ARGV[at + 5], ARGV[at + 7]:sub(2), storage_here(id)
    local copy = kept and here and transfer_memory_copy(id, lines[k].op, not moved and payload)
    if inside and here then
      word = storage_merge(id, state, payload, ARGV[at + 7] ~= '' and own) and 'ok' or 'exists'
    elseif state == '-' or here and not copy then
      word = 'exists'
    elseif not inside and (config.closed or storage_refuses(own, state)) then
      if not moved then return {err = 'CLOSED the queue is draining and takes no new entries'} end
      word = 'closed'
    elseif not inside and state ~= 'dead' and most > 0 and waiting + live >= most then
      local why = waiting .. ' entries wait and max_waiting is ' .. most
      if not moved then return {err = 'FULL ' .. why} end
      word = 'full'
    else
      word = 'ok'
      chosen[#chosen + 1] = k
      storage_check_arrival(payload, own)
      if copy then
        transitions_move(id, 'trash', 'gone', 0, lines[k])
        cleared = true
      end
      if state ~= 'dead' then live = live + 1 end
    end
    if word ~= 'ok' then
      results[#results + 1], results[#results + 2] = id, word
    elseif not kept then
      accepted[#accepted + 1], accepted[#accepted + 2] = now_text, marks[k]
    end
  end
  reply[k] = word
end
if cleared then transitions_flush() end
for _, k in ipairs(chosen) do
  local at = first + (k - 1) * width
  local state, score, record, payload, failure, following = unpack(ARGV, at + 2, at + 7)
  local own = following:sub(2)
  local id, result = storage_place(ids[k], payload, own)
  if kept then results[#results + 1], results[#results + 2] = ids[k], result end
  -- mutant moved without its error: failure ~= '' => false
  if failure ~= '' then redis.call('HSET', err, id, failure) end
  -- mutant moved without what follows: following ~= '' => false
  if storage_next_runs and following ~= '' then redis.call('HSET', storage_next_runs, id, own) end
  if score == '' then score = now_text end
  if kept then -- an undo recognises it by the operation
    local r = record_unpack(record)
    r.op = op
    if moved then r.ready, r.since = 0, now end
    record = record_pack(r)
  end
  if not inside and not moved and history_all then
    history_note('submitted', kept and marks[k] or id .. '|' .. score)
  end
  -- What comes from another queue goes behind what waits, as a dead one that is replayed does.
  transfer_enter(id, inside and 'transit' or 'dead', state, score, record)
end
if kept and #chosen > 0 then redis.call('HINCRBY', op_ .. op, 'done', #chosen) end
if moved and #chosen > 0 then
  history_note('op', table.concat({op, 'move', ARGV[first + 2], #chosen}, '|'))
end
if not inside then history_tally('i', live) end
if kept and #results > 0 then transfer_memory_keep(op, step, keep_ms, results) end
if kept then unfinished_operations_keep(op) end
if #accepted > 0 then redis.call('ZADD', seen, unpack(accepted)) end
transitions_flush()
return reply
