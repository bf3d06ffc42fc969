-- Ids in the owner's lists, sets and sorted sets whose record is gone: only the place of an id is kept.
-- `e.orphan`: the end of the owner's lists from which the next entry is taken, LEFT or RIGHT.
-- USES: moves_lacks_record element
local function orphans_take_out(e)
  local ok, why = moves_lacks_record(e)
  if not ok then return nil, why end
  e.shown = ''
  return element_leaves(e, redis.call('TYPE', e.key).ok)
end

local function orphans_restorable(e)
  return moves_lacks_record(e) and not (e.score and redis.call('ZSCORE', e.key, e.member))
end

local function orphans_put_back(e) return element_returns(e, e.orphan == 'RIGHT') end
