-- Undo one step of a bulk move, as far as its entries are unchanged since; with `gather` also steps
-- before it, until about `MOST` entries are put back, or more requests than a call should touch. Then
-- the next call of the undo `by` goes on where this one ended, whatever its `step` says: it can be sent
-- while this one is carried out.
-- KEYS: op_ meta
-- ARGV: caller seq by op step to gather
-- USES: idempotency transitions undo_list history list_of operation_journal record state_zsets
-- USES: storage_moved storage_score storage_still_in write_buffer corrupt_values
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many were put back, how many had changed, which step is next, and the ids of those that
-- had changed.
local MOST, LISTS = 128, 64
operation_journal_check(op)
operation_journal_check(by)
local reply, late = idempotency_replayed()
if late then return idempotency_superseded end
if reply then return reply end
history_by = by
gather, step = gather == '1', tonumber(step)
if gather then
  step = corrupt_values_integer(redis.call('HGET', op_ .. by, 'next'), op_ .. by, 'next') or step
  if step < 1 then return idempotency_remember({'0', '0', '0'}) end
end
local lists, seen, back, left, at = {}, 0, 0, {'', '', ''}, string.format('%.0f', now)
local stays = {failures = 0, lost = 0, first = 0}
local mark, match, same, full = ' ' .. op .. ' ', string.match, nil, false
local leaves, enters, leaves_of, enters_of

local function take_back(ids, froms, scores, lines)
  local present = redis.call('HMGET', meta, unpack(ids))
  local there = to ~= 'restore' and storage_still_in(ids, to)
  for k = 1, #ids do
    local id, line, from, is, put = ids[k], present[k], froms[k], to, false
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
        local moved = storage_moved(id, is, from, stays)
        put, full = moved ~= false, full or moved == 'full'
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
end

local range, n
repeat
  local list, ids, froms, scores, lines
  list, range, ids, froms, scores, lines = undo_list_read(step)
  n = #ids
  if n > 0 and not range and #lists > 0 then break end -- a step of `move`, in a call of its own
  lists[#lists + 1], seen, step = list, seen + n, step - 1
  if n > 0 then take_back(ids, froms, scores, lines) end
until step < 1 or not gather or n > 0 and not range or full or seen + n > MOST or #lists == LISTS
transitions_check()
redis.call('DEL', unpack(lists))
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- a shard may lack either journal entry
redis.call('HINCRBY', op_ .. by, 'done', back)
if gather then redis.call('HSET', op_ .. by, 'next', step) end
redis.call('PEXPIRE', op_ .. by, 2592000000)
history_note('op', table.concat({by, 'undo', op, back}, '|'))
transitions_flush()
left[1], left[2], left[3] = tostring(back), tostring(seen - back), tostring(step)
return idempotency_remember(left)
