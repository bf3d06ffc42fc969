-- Take entries of one step back, as far as they are unchanged since: each goes to the state that it came
-- from, with its record and its score of then.
-- KEYS: meta
-- NEEDS: op to
-- USES: transitions list_of record state_zsets storage_moved storage_score storage_still_in write_buffer
local stays, mark = {failures = 0, lost = 0, first = 0}, ' ' .. op .. ' '
local match, same = string.match, nil
local leaves, enters, leaves_of, enters_of

-- The entries as `undo_list_read` has them; the ids of those that had changed are added to `left`.
-- Returns how many are put back, and whether that is as much as a call should do.
local function undo_entries_back(ids, froms, scores, lines, left)
  local present = redis.call('HMGET', meta, unpack(ids))
  local there = to ~= 'restore' and storage_still_in(ids, to)
  local back, full, at = 0, false, string.format('%.0f', now)
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
  return back, full
end
