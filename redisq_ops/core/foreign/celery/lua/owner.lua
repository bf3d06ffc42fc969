-- Messages of Celery that wait in a list: removed by their exact bytes, and put back.
-- IMPLEMENTS: owner_fit owner_take_out owner_put_in owner_take_back owner_restorable owner_put_back
-- USES: remove_from_list type_check
local function owner_fit(e) type_check_key(e.key, 'list') end

local function owner_take_out(e)
  e.rank = tonumber(e.seen)
  e.left = left_of(e.key, e.member, e.rank)
  return out_of_list(e.key, e.member, e.rank)
end

-- Nothing goes anywhere else: a message belongs in the list that its priority says.
local function owner_put_in() end

-- Only what was restored from the trash: it is back in its list.
local function owner_take_back(e, _, _, seen)
  e.seen = seen or e.seen
  return owner_take_out(e)
end

local function owner_restorable() return true end

local function owner_put_back(e)
  into_list(e.key, e.member, e.left)
  return e.key, e.member
end
