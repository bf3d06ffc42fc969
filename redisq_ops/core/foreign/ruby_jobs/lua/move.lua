-- One step of an operator's bulk move. Each entry was looked up by its id just before; here it is
-- taken out of its place by its exact bytes, if it still is there, and put where it belongs now.
-- A row's `kind` is its place (see `places`), or - with a word in `key` for what isn't moved. `put`:
-- a = and the bytes to put into queue `name`, or '' for the entry's own. `seen`: its place in a list.
-- KEYS: undo_ op_ t_queue_ trash was purged
-- ARGV: caller seq from to consumer lease_ms side queue failed span
-- REST: id kind key member seen put name
-- REPLACES: move
-- USES: idempotency places trash concurrent_step config counters history leased_jobs operation_journal
-- USES: owner_lists record remove_from_list wake_workers
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns one word per row: moved, theirs (see there), or why not.
operation_journal_check(caller)
local said, late = idempotency_replayed()
if late then return idempotency_superseded end
if said then return concurrent_step(said) end
history_by, said = consumer, {}
for i = first, #ARGV, width do fit_place(ARGV[i + 1], ARGV[i + 2]) end
local undo, moved, front, woken = {}, 0, {}, 0
for i = first, #ARGV, width do
  local id, kind, key, member = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local put, name, word, row = ARGV[i + 5], ARGV[i + 6], key, nil
  if to == 'waiting' and not fits(name) or to == 'restore' and not restorable(member) then
    word = 'invalid'
  elseif kind ~= '-' then
    row, word = take_out(kind, key, member, ARGV[i + 4])
    word = row and 'moved' or word == 'deep' and word or 'changed'
  end
  said[#said + 1] = word
  if row then
    moved = moved + 1
    local now_in = {}
    put = put == '' and row[3] or put:sub(2)
    if to == 'waiting' then
      if kind == 'held' then front[#front + 1] = {name, put} else to_end(name, put) end
      now_in = {'list', t_queue_ .. name, put}
      if name == queue then woken = woken + 1 end
    elseif to == 'trash' then
      local label, n = id, 1
      while redis.call('ZSCORE', trash, label) do n = n + 1; label = id .. '~' .. n end
      redis.call('ZADD', trash, now, label)
      redis.call('HSET', was, label, cmsgpack.pack({caller, row[1], row[2], row[4], row[5] or ''}))
      redis.call('HSET', purged, label, row[3])
      now_in = {'trash', label}
    elseif to == 'pending' then
      local r = record_unpack(row[5])
      local ticket = (tickets(1) + 1) .. '-' .. caller
      r.receipt, r.consumer, r.op, r.since = ticket, consumer, caller, now
      hold(ticket, row[3], record_pack(r), string.format('%.0f', now + tonumber(lease_ms)))
      now_in = {'held', ticket}
    elseif to == 'delayed' then
      now_in = {'zset', key, into_set(key, seconds(lease_ms), row[3]), seconds(lease_ms)}
    elseif to == 'restore' then
      local origin = cmsgpack.unpack(row[5])
      if origin[2] == 'held' then -- its holder is long gone
        to_end(queue, row[3])
        now_in = {'list', t_queue_ .. queue, row[3]}
      else
        now_in = {origin[2], origin[3], put_back({origin[2], origin[3], row[3], origin[4]}), origin[4]}
      end
    end
    undo[#undo + 1] = cmsgpack.pack({now_in, row})
  end
end
sweep_marks()
empty_trash(100)
for i = #front, 1, -1 do to_front(front[i][1], front[i][2]) end
if moved > 0 then
  if to ~= 'gone' then
    local list = undo_ .. caller .. ':' .. seq
    redis.call('RPUSH', list, unpack(undo))
    redis.call('PEXPIRE', list, config.trash_ms)
  end
  redis.call('HINCRBY', op_ .. caller, 'done', moved)
  history_note('op', table.concat({caller, from, to, moved}, '|'))
end
if woken > 0 then wake_workers(woken) end
redis.call('HSET', op_ .. caller, 'steps', seq, 'span', span)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
counters_write()
history_write()
return idempotency_remember(said)
