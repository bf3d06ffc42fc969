-- Which of some entries, whose records name the operation that brought them there, are in a state yet.
-- What is delivered, or comes back from that, has the name struck out of its record, so what waited
-- then waits now; to look for each in the group would cost more than all the rest of an undo.
-- USES: transitions
local function still(ids, state)
  local found = {}
  if state ~= 'waiting' and #ids > 0 then
    found = redis.call('ZMSCORE', zset_of[state], unpack(ids))
  end
  for k, id in ipairs(ids) do
    found[k] = (found[k] or state == 'waiting') and request((split(id)))
  end
  return found
end
