-- One step of an operator's bulk move of entries of another program. Python has just located each entry
-- by its id; it is moved if it is still the one that was read. Hooks (`move_hooks`) write the owner's
-- keys. `why`: a word for an entry that isn't moved, else empty. `put`: = and the bytes to write instead
-- of the entry's own, or empty. `orphan`: as in `orphans` for an id without a record, else empty.
-- `shown`: = and what the trash shows of it, or empty: its own bytes. An entry in the trash is found by
-- its id and the time it went there: another entry may have its id by now.
-- KEYS: undo_ op_
-- ARGV: caller seq from to consumer at queue span
-- REST: id why key member seen stamp put goes_to orphan shown
-- REPLACES: move
-- USES: idempotency concurrent_step config counters history audit_log trash step_rows
-- USES: remove_from_list put_into_list expire_bookkeeping
-- USES: orphans moves_fit moves_take_out moves_put_in moves_restorable moves_put_back moves_done
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns one word per row: moved, theirs (see `concurrent_step`), or why not.
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return concurrent_step(reply) end
history_by, reply = consumer, {}
local entries, undo, sorted = {}, {}, true
for i = first, #ARGV, width do
  local put, shown = ARGV[i + 6], ARGV[i + 9]
  local e = {id = ARGV[i], key = ARGV[i + 2], member = ARGV[i + 3], seen = ARGV[i + 4],
    stamp = ARGV[i + 5], put = put ~= '' and put:sub(2) or nil, queue = ARGV[i + 7],
    orphan = ARGV[i + 8] ~= '' and ARGV[i + 8] or nil,
    shown = shown ~= '' and shown:sub(2) or nil}
  local word = ARGV[i + 1]
  if word == '' and from == 'trash' then
    local label, op, kept, since = e.id, trash_get(e.id)
    -- mutant another's in the trash: and tonumber(since) == tonumber(e.seen) and kept =>
    e = kept and tonumber(since) == tonumber(e.seen) and kept
    word = e and '' or 'changed'
    if e then e.label, e.since, e.op = label, since, op end
  end
  if word == '' then moves_fit(e, to) end
  entries[#entries + 1] = {e, word}
end
local order = {}
for i = 1, #entries do order[i] = i end
if to == 'restore' then -- neighbours from one list come back in their order
  local function rank(i) return entries[i][1] and entries[i][1].rank or 0 end
  -- mutant restored in disorder: rank(a) < rank(b) or rank(a) == rank(b) and =>
  table.sort(order, function(a, b) return rank(a) < rank(b) or rank(a) == rank(b) and a < b end)
end
for _, i in ipairs(order) do
  local e, word = entries[i][1], entries[i][2]
  local ok, why = word == '', word
  if ok and to == 'restore' then
    ok, why = (e.orphan and orphans_restorable or moves_restorable)(e, true)
    why = why or 'taken'
  elseif ok and from ~= 'trash' then
    ok, why = (e.orphan and orphans_take_out or moves_take_out)(e, to)
    if why == 'unsure' then why = nil end
  end
  reply[i] = ok and 'moved' or why or 'changed'
  if ok then
    local list, bytes
    local row, last = {rank = e.rank or 0}, undo[#undo]
    sorted = sorted and (not last or last.rank <= row.rank)
    if from == 'trash' then trash_drop(e.label) end
    if to == 'trash' then
      e = {label = trash_put(caller, e)}
    elseif to == 'restore' then
      list, bytes = (e.orphan and orphans_put_back or moves_put_back)(e, true)
    elseif to ~= 'gone' then
      list, bytes = moves_put_in(e, to, tonumber(at), consumer)
    end
    row.packed = step_rows_pack(to, e, list, bytes)
    undo[#undo + 1] = row
  end
end
-- mutant marks left behind
sweep_marks()
turn_lists_back()
empty_trash(100)
moves_done()
-- mutant kept in disorder: table.sort(undo, function(a, b) return a.rank < b.rank end) => local _
if not sorted then table.sort(undo, function(a, b) return a.rank < b.rank end) end
for i = 1, #undo do undo[i] = undo[i].packed end
if #undo > 0 then
  if to ~= 'gone' then
    local list = undo_ .. caller .. ':' .. seq
    redis.call('RPUSH', list, unpack(undo))
    redis.call('PEXPIRE', list, config.trash_ms)
  end
  redis.call('HINCRBY', op_ .. caller, 'done', #undo)
  history_note('op', table.concat({caller, from, to, #undo}, '|'))
end
redis.call('HSET', op_ .. caller, 'steps', seq, 'span', span)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
expire_bookkeeping()
counters_write()
history_write()
return idempotency_remember(reply)
