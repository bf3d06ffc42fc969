-- An id comes from another shard and is here too, because a foreign producer pushed it: it counts as
-- pushed once more if it had still to run. Of two that have ended one is kept, as for two pushes of the
-- same bytes.
-- KEYS: body meta again
-- IMPLEMENTS: storage_merge
-- USES: transitions elements record state
local ENDED = {dead = true, trash = true}

local function storage_merge(id, state, payload, following)
  local here = state_of(id, redis.call('HGET', meta, id))
  local row = following ~= '' and following
  if ENDED[state] then return ENDED[here] or false end
  if here == 'transit' then return false end
  if ENDED[here] then
    transitions_move(id, here, 'waiting', now, record_unpack(nil))
    redis.call('HSET', body, id, payload)
    if row and elements_each then state_run_again(id, row) end
    if row and not elements_each then redis.call('HSET', again, id, row) end
  elseif elements_each then
    state_run_again(id, 1 + (row or 0))
  elseif here == 'pending' then
    redis.call('HSET', again, id, row or payload)
  elseif (row or payload) ~= '' then
    redis.call('HSET', body, id, row or payload)
  end
  return true
end
