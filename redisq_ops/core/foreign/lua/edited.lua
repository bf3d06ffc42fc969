-- Other bytes for an entry where its owner keeps it: `put` in place of `member` in its list or sorted
-- set, and the `parts` of its record (rows of `elements`, with the value before and after). `kind`: the
-- type of `key`; empty: the entry is in no list or set. `seen`: its position from the left, or score.
-- USES: remove_from_list elements type_check
local function edited_fit(e)
  if e.kind ~= '' then type_check_key(e.key, e.kind) end
  for _, part in ipairs(e.parts) do type_check_key(part[2], part[1]) end
end

-- Whether everything is as it was read, and the new bytes don't stand for another entry. Reads only.
local function edited_holds(e)
  if e.kind == 'list' then
    e.at, e.why = position(e.key, e.member, tonumber(e.seen))
    if not e.at then return false end
  elseif e.kind == 'zset' then
    local score = redis.call('ZSCORE', e.key, e.member)
    -- mutant edited with another score: tonumber(score) ~= tonumber(e.seen) => false
    if not score or tonumber(score) ~= tonumber(e.seen) then return false end
    if e.put ~= e.member and redis.call('ZSCORE', e.key, e.put) then return false end
    e.seen = score
  end
  for _, part in ipairs(e.parts) do
    -- mutant edited unread: not elements_hold(part, part[4]) => false
    if not elements_hold(part, part[4]) then return false end
  end
  return true
end

-- Write it, and return what writes it back.
local function edited_write(e)
  if e.put ~= e.member and e.kind == 'list' then
    redis.call('LSET', e.key, e.at, e.put)
  elseif e.put ~= e.member then
    redis.call('ZREM', e.key, e.member)
    redis.call('ZADD', e.key, e.seen, e.put)
  end
  local parts = {}
  for i, part in ipairs(e.parts) do
    if part[4] ~= part[5] then elements_set(part, part[5]) end
    parts[i] = {part[1], part[2], part[3], part[5], part[4]}
  end
  return {id = e.id, kind = e.kind, key = e.key, member = e.put, put = e.member,
    seen = e.at or e.seen, parts = parts}
end
