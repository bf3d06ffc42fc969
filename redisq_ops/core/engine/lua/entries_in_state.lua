-- Which of some entries, whose records name the operation that brought them there, are in a state
-- yet, asked all at once where a sorted set knows it.
-- USES: transitions
local function still(ids, state)
  if #ids == 0 then return {} end
  if zset_of[state] then return redis.call('ZMSCORE', zset_of[state], unpack(ids)) end
  local found = {}
  for k, id in ipairs(ids) do found[k] = room_score(id, state) or false end
  return found
end
