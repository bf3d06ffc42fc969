-- Take one step of a bulk move back, as far as its entries are where it put them.
-- KEYS: undo_ op_
-- ARGV: caller seq op step side queue failed
-- USES: guard places
-- FLAGS: allow-oom
-- Returns how many were put back and how many had been touched.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
local list = undo_ .. op .. ':' .. step
local rows, back, touched = redis.call('LRANGE', list, 0, 499), {}, 0
local near, missed = {}, {}
for i = #rows, 1, -1 do
  local now_in, row = unpack(cmsgpack.unpack(rows[i]))
  local kind, key, payload = now_in[1], now_in[2], now_in[3]
  local out
  if not open_for(row[1], row[2]) then
    out = nil
  elseif kind == 'list' then
    -- Neighbours went in together: where the last one was found is the place to look first.
    local seen = near[key]
    if not seen and (missed[key] or 0) < 20 then -- each search may walk far, and all may be gone
      local rank = sidekiq and 1 or -1
      seen = redis.call('LPOS', key, payload, 'RANK', rank, 'MAXLEN', REACH)
        or redis.call('LPOS', key, payload, 'RANK', -rank, 'MAXLEN', REACH)
      if not seen then missed[key] = (missed[key] or 0) + 1 end
    end
    if seen then out = take_out(kind, key, payload, seen) end
    if out then
      near[key], drift[key] = seen + (drift[key] or 0) + (sidekiq and 1 or -1), 0
    end
  elseif kind == 'trash' then
    local origin = redis.call('HGET', was, key)
    if origin and cmsgpack.unpack(origin)[1] == op then out = take_out(kind, key, key) end
  elseif kind == 'held' then
    out = take_out(kind, key, key) -- its ticket was made by that step
  else
    out = take_out(kind, key, payload)
  end
  if out then back[#back + 1] = row else touched = touched + 1 end
end
sweep_marks()
for i = #back, 1, -1 do put_back(back[i]) end
redis.call('DEL', list)
redis.call('HINCRBY', op_ .. op, 'undone', #back)
note('op', table.concat({caller, 'undo', op, #back}, '|'))
write_counters()
write_history()
return remember({tostring(#back), tostring(touched)})
