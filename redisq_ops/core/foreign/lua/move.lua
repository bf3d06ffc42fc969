-- One step of an operator's bulk move of entries that another program keeps. Each was located by its id
-- just before; it is taken out of its place if it is the one that was seen, and put where it goes on. A
-- row's `why` is a word for one that isn't moved; the rest see `owner`, whose hooks say what is written.
-- In the trash an entry is found by its id alone.
-- KEYS: undo_ op_ purged
-- ARGV: caller seq from to at span
-- REST: id why key member seen stamp
-- REPLACES: move
-- USES: idempotency concurrent_step config counters history operation_journal owner trash
-- USES: remove_from_list expire_bookkeeping
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns one word per row: moved, theirs (see there), or why not.
operation_journal_check(caller)
local said, late = idempotency_replayed()
if late then return idempotency_superseded end
if said then return concurrent_step(said) end
history_by, said = caller, {}
local entries, undo = {}, {}
for i = first, #ARGV, width do
  local e = {id = ARGV[i], key = ARGV[i + 2], member = ARGV[i + 3], seen = ARGV[i + 4],
    stamp = ARGV[i + 5]}
  local label, word = e.id, ARGV[i + 1]
  if word == '' and from == 'trash' then
    local op, kept, since = trash_get(label)
    e, word = kept, kept and '' or 'changed'
    if e then e.label, e.since, e.op = label, since, op end
  end
  if word == '' then owner_fit(e) end
  entries[#entries + 1] = {e, word}
end
for i = 1, #entries do
  local e, word = entries[i][1], entries[i][2]
  local ok, why = word == '', word
  if ok and to == 'restore' then
    ok, why = owner_restorable(e), 'invalid'
  elseif ok and from ~= 'trash' then
    ok, why = owner_take_out(e, to)
  end
  said[i] = ok and 'moved' or why or 'changed'
  if ok then
    if from == 'trash' then
      e.shown = redis.call('HGET', purged, e.label) or ''
      trash_drop(e.label)
    end
    if to == 'trash' then
      e.label = trash_put(caller, e, owner_shown(e))
    elseif to == 'restore' then
      owner_put_back(e)
    elseif to ~= 'gone' then
      owner_put_in(e, to, tonumber(at))
    end
    undo[#undo + 1] = cmsgpack.pack({to, to == 'trash' and {label = e.label} or e})
  end
end
sweep_marks()
empty_trash(100)
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
return idempotency_remember(said)
