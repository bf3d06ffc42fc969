-- Takes an element out of an owner's list, sorted set or set, and puts it back exactly.
-- USES: remove_from_list put_into_list
-- Whether an element still has the score that it was seen with; sets `e.score` to its present one.
local scored
local function element_scored(e)
  e.score = redis.call('ZSCORE', e.key, e.member)
  -- mutant score ignored: and tonumber(e.score) == tonumber(e.seen) =>
  local same = e.score and tonumber(e.score) == tonumber(e.seen)
  scored = same and e or nil
  return same
end

-- `kind`: the type of the key. Returns true; or nil, and a word why not. Where `element_scored` has just
-- found it, its score isn't asked for again.
local function element_leaves(e, kind)
  if kind == 'list' then
    e.rank = tonumber(e.seen)
    e.left = left_of(e.key, e.member, e.rank)
    return out_of_list(e.key, e.member, e.rank)
  end
  e.set = kind == 'set' or nil
  if e.set then return redis.call('SREM', e.key, e.member) == 1 end
  if scored ~= e and not element_scored(e) then return nil end
  scored = nil
  redis.call('ZREM', e.key, e.member)
  return true
end

-- The same for an element of the sorted set `key`, to which a step added it with the score `e.there`.
local function element_leaves_again(e, key)
  local score = redis.call('ZSCORE', key, e.member)
  -- mutant undo of another score: or tonumber(score) ~= tonumber(e.there) =>
  if not score or tonumber(score) ~= tonumber(e.there) then return nil end
  redis.call('ZREM', key, e.member)
  return true
end

-- `taken_right`: workers take the elements of the list on its right. Returns what `moves_put_back` does.
local function element_returns(e, taken_right)
  if e.set then
    redis.call('SADD', e.key, e.member)
  elseif e.score then
    -- mutant undo forgets the score: e.score => 1
    redis.call('ZADD', e.key, e.score, e.member)
  else
    -- mutant undo at the wrong place: e.left => nil
    into_list(e.key, e.member, e.left, taken_right)
    return e.key, e.member
  end
end
