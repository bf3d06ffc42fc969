-- Undo one step of a bulk move, as far as its entries are unchanged since.
-- KEYS: undo_ op_ meta
-- ARGV: caller seq op step to
-- USES: idempotency transitions corrupt_values history list_of operation_journal record state_zsets
-- USES: storage_moved storage_score storage_still_in write_buffer
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns how many were put back, how many had changed, and the ids of these.
operation_journal_check(op)
operation_journal_check(caller)
local reply, late = idempotency_replayed()
if late then return idempotency_superseded end
if reply then return reply end
history_by = caller
local list = undo_ .. op .. ':' .. step
local rows, ids, froms, scores, lines = redis.call('LRANGE', list, 0, 499), {}, {}, {}, {}
if rows[1] and rows[1]:sub(1, 1) == ' ' then -- a step of `move_range`, in one piece
  local from = rows[1]:sub(2)
  for id in rows[2]:gmatch('%S+') do
    ids[#ids + 1], froms[#froms + 1] = id, from
  end
  for line in rows[3]:gmatch('[^\n]+') do lines[#lines + 1] = line end
  for score in rows[4]:gmatch('%S+') do scores[#scores + 1] = score end
else
  for k, row in ipairs(rows) do
    ids[k], froms[k], scores[k], lines[k] = row:match('^(%S+) (%S+) (%S+) (.+)$')
    if not ids[k] then corrupt_values_fail(list, 'row ' .. k, 'what an entry was') end
  end
end
local present = #ids > 0 and redis.call('HMGET', meta, unpack(ids)) or {}
local there = to ~= 'restore' and storage_still_in(ids, to)
local back, left, at = 0, {'', ''}, string.format('%.0f', now)
local stays = {failures = 0, lost = 0, first = 0}
local mark, sub = ' ' .. op .. ' ', string.sub
for k, id in ipairs(ids) do
  local line, from, is, put = present[k], froms[k], to, false
  local ours = false
  if line then
    local _, _, _, _, f = record_ends(line)
    ours = f and line:find(mark, f, true) == f
  end
  if ours and to == 'restore' then
    local r = record_unpack(line)
    is = r.reason ~= '-' and 'dead' or storage_score(id, 'delayed') and 'delayed' or 'waiting'
  end
  if ours and (there and there[k] or not there and storage_score(id, is)) then
    local was, held = lines[k] or '', from ~= 'dead' and from ~= 'trash'
    put = true
    local a, c, d, e = record_ends(was)
    local sound = was:find('^%S+ %d+ %d+ %d+ %d+ %S+ %S+ %S+ %d+$') -- else it is corrupt
    local score = tonumber(scores[k]) and scores[k] or sound and sub(was, d + 1, e - 1) or at
    if sound and not held and was:byte(c + 1) ~= 48 then -- not pending: cut, not unpacked
      put = storage_moved(id, is, from, stays) ~= false
      if put then
        if state_zsets[is] then
          local leaves = list_of(write_buffer_drops, state_zsets[is])
          leaves[#leaves + 1] = id
        end
        local enters = list_of(write_buffer_adds, state_zsets[from])
        local n = #enters
        enters[n + 1], enters[n + 2], transitions_backdated = score, id, true
        write_buffer_record(id, '-' .. sub(was, a, d) .. at .. sub(was, e))
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
redis.call('DEL', list)
redis.call('HINCRBY', op_ .. op, 'undone', back)
redis.call('PEXPIRE', op_ .. op, 2592000000) -- a shard may lack either journal entry
redis.call('HINCRBY', op_ .. caller, 'done', back)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
history_note('op', table.concat({caller, 'undo', op, back}, '|'))
transitions_flush()
left[1], left[2] = tostring(back), tostring(#ids - back)
return idempotency_remember(left)
