-- Take a portion of a step of a bulk move back, the first of what is left of it, as far as its entries
-- are where it put them. What went into lists was looked for by the caller, by pages (`undo_places`):
-- a row for each entry in turn has its digest, empty if it is in no list, and where it was seen, from
-- the left: empty for nowhere, `deep` where it can't be reached. Those, and what moved further meanwhile
-- than a search goes, stay in the step, behind the rest; where an entry isn't the one its row means, it
-- ends. Called once more with the same `caller` and `seq`, and new rows, it goes on with what is left.
-- KEYS: undo_ op_
-- ARGV: caller seq op step side queue failed
-- REST: digest seen
-- REPLACES: undo
-- USES: idempotency places undo_rows counters history operation_journal remove_from_list
-- ENTRIES: op_{op}=hash undo_{op}:{step}=list
-- FLAGS: allow-oom
-- Returns, of all calls, how many were put back and how many had been touched; and how many are left.
operation_journal_check(op)
operation_journal_check(caller)
local said, late = idempotency_replayed()
if late then return idempotency_superseded end
if said and said[3] == '0' then return said end
history_by = caller
local list = undo_ .. op .. ':' .. step
local before, gone = said and tonumber(said[1]) or 0, said and tonumber(said[2]) or 0
local rows = #ARGV < first and {} or redis.call('LRANGE', list, 0, (#ARGV - first - 1) / width)
local back, touched, left, through = {}, 0, {}, 0
local moves = {}
for i = 1, #rows do
  local put, was_in = row_of(list, rows, i)
  moves[i] = {put, was_in}
end
budget.all = 3 * REACH
for i, text in ipairs(rows) do
  local now_in, row = moves[i][1], moves[i][2]
  local kind, key, payload, score = now_in[1], now_in[2], now_in[3], now_in[4]
  local digest, seen = ARGV[first + (i - 1) * width], ARGV[first + (i - 1) * width + 1]
  local out, why
  if digest ~= (kind == 'list' and redis.sha1hex(payload) or '') then break end
  through = i
  if not open_for(row[1], row[2]) or not open_for(kind, key) then
    out = nil
  elseif kind == 'list' then
    if seen == 'deep' then
      why = seen
    elseif seen ~= '' then
      out, why = take_out(kind, key, payload, seen)
    end
  elseif kind == 'trash' then
    local origin = origin_of(key)
    if origin and origin[1] == op then out = take_out(kind, key, key) end
  elseif kind == 'held' then
    out = take_out(kind, key, key) -- its ticket was made by that step
  elseif not score or tonumber(redis.call('ZSCORE', key, payload) or '') == tonumber(score) then
    out = take_out(kind, key, payload) -- else another change has given it another time
  end
  if out then
    back[#back + 1] = row
  elseif why then
    left[#left + 1] = text
  else
    touched = touched + 1
  end
end
sweep_marks()
for i = 1, #back do put_back(back[i]) end
if #left > 0 then redis.call('RPUSH', list, unpack(left)) end -- first: the list's time stays
if through > 0 then redis.call('LTRIM', list, through, -1) end
if #back > 0 then
  redis.call('HINCRBY', op_ .. op, 'undone', #back)
  redis.call('HINCRBY', op_ .. caller, 'done', #back)
  redis.call('PEXPIRE', op_ .. caller, 2592000000)
  history_note('op', table.concat({caller, 'undo', op, #back}, '|'))
end
counters_write()
history_write()
return idempotency_remember({tostring(before + #back), tostring(gone + touched),
  tostring(redis.call('LLEN', list))})
