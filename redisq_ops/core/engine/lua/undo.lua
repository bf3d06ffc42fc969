-- Undo one step of a bulk move, as far as its entries are unchanged since; of a move of a whole state
-- also the steps before it, at most `most` in all, until about `MOST` entries are put back.
-- KEYS: op_ meta
-- ARGV: caller seq op step to most
-- USES: idempotency transitions undo_steps history list_of operation_journal record state_zsets
-- USES: storage_moved storage_score storage_still_in write_buffer
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many were put back, how many had changed, how many steps that is, and the ids of those
-- that had changed.
local MOST = 128
operation_journal_check(op)
operation_journal_check(caller)
local reply, late = idempotency_replayed()
if late then return idempotency_superseded end
if reply then return reply end
history_by = caller
local lists, ids, froms, scores, lines = undo_steps_read(MOST)
local present = #ids > 0 and redis.call('HMGET', meta, unpack(ids)) or {}
local there = to ~= 'restore' and storage_still_in(ids, to)
local back, left, at = 0, {'', '', ''}, string.format('%.0f', now)
local stays = {failures = 0, lost = 0, first = 0}
local mark, match, same = ' ' .. op .. ' ', string.match, nil
local leaves, enters, leaves_of, enters_of
for k, id in ipairs(ids) do
  local line, from, is, put = present[k], froms[k], to, false
  local ours = line and line == same -- a replay gives all entries of a step one record
  if line and not ours then
    local _, _, _, _, f = record_ends(line)
    ours = f and line:find(mark, f, true) == f
    if ours then same = line end
  end
  if ours and to == 'restore' then
    local r = record_unpack(line)
    is = r.reason ~= '-' and 'dead' or storage_score(id, 'delayed') and 'delayed' or 'waiting'
  end
  if ours and (there and there[k] or not there and storage_score(id, is)) then
    local was, held = lines[k] or '', from ~= 'dead' and from ~= 'trash'
    local counts, since, rest = match(was, '^%S+( %d+ %d+ [1-9]%d* )(%d+)( %S+ %S+ %S+ %d+)$')
    if not since then since = match(was, '^%S+ %d+ %d+ 0 (%d+) %S+ %S+ %S+ %d+$') end
    local score = scores[k] and tonumber(scores[k]) and scores[k] or since or at -- nil: it is corrupt
    put = true
    if counts and not held then -- it was delivered: its record is cut, not unpacked
      put = storage_moved(id, is, from, stays) ~= false
      if put then
        if leaves_of ~= is then
          leaves_of, leaves = is, state_zsets[is] and list_of(write_buffer_drops, state_zsets[is])
        end
        if leaves then leaves[#leaves + 1] = id end
        if enters_of ~= from then
          enters_of, enters = from, list_of(write_buffer_adds, state_zsets[from])
        end
        local n = #enters
        enters[n + 1], enters[n + 2], transitions_backdated = score, id, true
        write_buffer_record(id, '-' .. counts .. at .. rest)
      end
    else
      local r = record_unpack(was) -- a receipt is valid again too
      transitions_move(id, is, from, score, r, held and r.since)
    end
    if put then back = back + 1 end
  end
  if not put then left[#left + 1] = id end
end
transitions_check()
redis.call('DEL', unpack(lists))
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- a shard may lack either journal entry
redis.call('HINCRBY', op_ .. caller, 'done', back)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
history_note('op', table.concat({caller, 'undo', op, back}, '|'))
transitions_flush()
left[1], left[2], left[3] = tostring(back), tostring(#ids - back), tostring(#lists)
return idempotency_remember(left)
