-- What `move` would answer for entries of another program, without moving any.
-- ARGV: caller seq from to queue
-- REST: id why key member seen stamp put goes_to orphan shown
-- USES: trash orphans moves_fit moves_take_out moves_restorable moves_lacks_record
-- FLAGS: no-writes
-- Returns one word per row: moved, or why not.
local reply = {}
for i = first, #ARGV, width do
  local ok, why = ARGV[i + 1] == '', ARGV[i + 1]
  local e = {id = ARGV[i], key = ARGV[i + 2], member = ARGV[i + 3], seen = ARGV[i + 4],
    stamp = ARGV[i + 5], put = ARGV[i + 6] ~= '' and ARGV[i + 6]:sub(2) or nil, queue = ARGV[i + 7],
    orphan = ARGV[i + 8] ~= '', dry = true}
  if ok and from == 'trash' then
    local _, kept = trash_get(e.id)
    local restorable = kept and kept.orphan and orphans_restorable or moves_restorable
    if to == 'restore' and kept then
      ok, why = restorable(kept, true)
      why = why or 'taken'
    else
      ok = kept
    end
  elseif ok and e.orphan then
    ok, why = moves_lacks_record(e)
  elseif ok then
    moves_fit(e, to)
    ok, why = moves_take_out(e, to)
  end
  reply[#reply + 1] = ok and 'moved' or why or 'changed'
end
return reply
