-- Take entries of one step back, if they are unchanged since: each goes to the state that it came from,
-- with its record and its score of then.
-- KEYS: meta
-- NEEDS: op to
-- USES: transitions list_of list_append record state_zsets storage_move_range storage_score
-- USES: storage_still_in write_buffer
local mark, same = ' ' .. op .. ' ', nil
local WAS = '^%- %d+ %d+ [1-9]%d* ()%d+() ' -- delivered, and not held: where its `since` is

-- Whether a record is the one that the step wrote. A replay gives all entries of a step one record.
local function unchanged(line)
  local _, _, _, _, f = record_ends(line)
  -- mutant undo of what was touched: f and => true or
  local ours = f and line:find(mark, f, true) == f
  if ours then same = line end
  return ours
end

local function score_of(score, r)
  if score and tonumber(score) then return score end
  return string.format('%.0f', r.since > 0 and r.since or now) -- 0: its record is corrupt
end

-- Entries that were dead or in the trash; `false` in place of an id is one to leave alone. Strings
-- cost: only what stays of a record is cut out. Returns how many moved, and whether that is enough.
local function all_back(ids, is, from, scores, lines, left)
  local moved, _, full = storage_move_range(ids, is, from, true)
  local drops, adds = state_zsets[is], {}
  if moved[1] then adds = list_of(write_buffer_adds, state_zsets[from]) end
  if drops and moved[1] then list_append(list_of(write_buffer_drops, drops), moved) end
  local find, sub, records, scored = string.find, string.sub, write_buffer_records, scores[1]
  local begins, k, m, n = 1, 0, #adds, #records
  for i = 1, #moved do
    local id = moved[i]
    k = k + 1
    while ids[k] ~= id do
      if ids[k] then left[#left + 1] = ids[k] end
      begins, k = (find(lines, '\n', begins, true) or #lines) + 1, k + 1
    end
    local _, _, since, behind = find(lines, WAS, begins)
    local ends = find(lines, '\n', behind or begins, true) or #lines + 1
    if since then
      records[n + 1], n = id, n + 2
      records[n] = sub(lines, begins, since - 1) .. now_text .. sub(lines, behind, ends - 1)
      since = sub(lines, since, behind - 1)
    else
      local r = record_unpack(sub(lines, begins, ends - 1))
      since, r.receipt, r.since = score_of(nil, r), '-', now
      write_buffer_retain(id, r)
      n = #records
    end
    -- mutant undo forgets the score: since = scores[k] => since = now_text
    if scored and tonumber(scores[k]) then since = scores[k] end
    adds[m + 1], adds[m + 2], m, begins = since, id, m + 2, ends + 1
  end
  for rest = k + 1, #ids do left[#left + 1] = ids[rest] or nil end
  transitions_backdated = true
  return #moved, full
end

-- The entries as `undo_list_read` has them; the ids of those that had changed are added to `left`.
-- Returns how many are put back, and whether that is as much as a call should do.
local function undo_entries_back(from, ids, scores, lines, left)
  local present = redis.call('HMGET', meta, unpack(ids))
  local there = to ~= 'restore' and storage_still_in(ids, to)
  if to ~= 'restore' and (from == 'dead' or from == 'trash') then
    for k = 1, #ids do
      local line = present[k]
      if not line or line ~= same and not unchanged(line) or there and not there[k] then
        left[#left + 1], ids[k] = ids[k], false
      end
    end
    return all_back(ids, to, from, scores, lines, left)
  end
  local back, was = 0, lines:gmatch('[^\n]+')
  for k = 1, #ids do
    local id, line, is, r = ids[k], present[k], to, record_unpack(was())
    local ours = line and (line == same or unchanged(line))
    if ours and to == 'restore' then
      local now_is = record_unpack(line)
      is = now_is.reason ~= '-' and 'dead' or storage_score(id, 'delayed') and 'delayed' or 'waiting'
    end
    if ours and (there and there[k] or not there and storage_score(id, is)) then
      -- A receipt is valid again too.
      transitions_move(id, is, from, score_of(scores[k], r), r, to ~= 'restore' and r.since)
      back = back + 1
    else
      left[#left + 1] = id
    end
  end
  return back, false
end
