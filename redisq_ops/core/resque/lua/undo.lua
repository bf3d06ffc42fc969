-- Take one step of a bulk move back, as far as its entries are where it put them. What went into lists
-- was looked for by the caller, page by page (`undo_places`): a row says where an entry of that digest
-- was seen, from the left, or `deep` for one that can't be reached. Those, and any that moved further
-- meanwhile than a few searches go, stay in the step: called once more with the same `caller` and
-- `seq`, and new rows, it goes on with them. Of each round, what was settled is settled once.
-- KEYS: undo_ op_
-- ARGV: caller seq op step side queue failed
-- REST: digest seen
-- USES: guard places
-- FLAGS: allow-oom
-- Returns, of all rounds, how many were put back and how many had been touched; and how many are left.
local said, late = replayed()
if late then return superseded end
if said and said[3] == '0' then return said end
by = caller
local list = undo_ .. op .. ':' .. step
local before, gone = said and tonumber(said[1]) or 0, said and tonumber(said[2]) or 0
local rows, back, touched, left = redis.call('LRANGE', list, 0, 499), {}, 0, {}
local seen = {}
for i = first, #ARGV, width do
  local places = seen[ARGV[i]] or {}
  places[#places + 1] = ARGV[i + 1]
  seen[ARGV[i]] = places
end
for i = #rows, 1, -1 do
  local now_in, row = unpack(cmsgpack.unpack(rows[i]))
  local kind, key, payload, score = now_in[1], now_in[2], now_in[3], now_in[4]
  local out, why
  if not open_for(row[1], row[2]) then
    out = nil
  elseif kind == 'list' then
    local at = table.remove(seen[redis.sha1hex(payload)] or {}, 1)
    if at == 'deep' then
      why = at
    elseif at then
      out, why = take_out(kind, key, payload, at)
    end
  elseif kind == 'trash' then
    local origin = redis.call('HGET', was, key)
    if origin and cmsgpack.unpack(origin)[1] == op then out = take_out(kind, key, key) end
  elseif kind == 'held' then
    out = take_out(kind, key, key) -- its ticket was made by that step
  elseif not score or tonumber(redis.call('ZSCORE', key, payload) or '') == tonumber(score) then
    out = take_out(kind, key, payload) -- else another change has given it another time
  end
  if out then
    back[#back + 1] = row
  elseif why then
    left[#left + 1] = rows[i]
  else
    touched = touched + 1
  end
end
sweep_marks()
for i = #back, 1, -1 do put_back(back[i]) end
if #left == 0 then
  redis.call('DEL', list)
elseif #left < #rows then
  for i = #left, 1, -1 do redis.call('RPUSH', list, left[i]) end
  redis.call('LTRIM', list, #rows, -1) -- what was there before these; the list's time stays
end
redis.call('HINCRBY', op_ .. op, 'undone', #back)
note('op', table.concat({caller, 'undo', op, #back}, '|'))
write_counters()
write_history()
return remember({tostring(before + #back), tostring(gone + touched), tostring(#left)})
