-- What Laravel writes when a job goes from one of its keys to another, and Horizon when it retries one.
-- `e.member` is the job's bytes, or the id of a failed job.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: failures element remove_from_list kept_keys type_check
local function moves_fit(e)
  local at, sets, hash = failures_keys(e)
  -- mutant type check off
  if hash then type_check_key(hash, 'hash') end
  local new = at and e.put and e.put:match('^%S+')
  if new then type_check_key(at .. new, 'hash') end
  if e.key ~= list then sets[#sets + 1] = e.key end
  -- mutant set's type check off: _, set in ipairs(sets) => _ in ipairs({})
  for _, set in ipairs(sets) do type_check_key(set, 'zset') end
  -- mutant list's type check off: _, key in ipairs({list, notify}) => _ in ipairs({})
  for _, key in ipairs({list, notify}) do type_check_key(key, 'list') end
end

local function moves_take_out(e, to)
  if e.key == list then
    return e.dry or element_leaves(e, 'list')
  end
  local _, _, hash = failures_keys(e)
  local values = hash and failures_values(e)
  if hash and not values or not element_scored(e) then return nil end
  if e.key == list .. ':reserved' and tonumber(e.score) * 1000 > now then return nil, 'busy' end
  if e.dry then return true end
  if hash and to == 'waiting' then
    local id, n, rest = e.put:match('^(%S+) (%d+) (.*)$')
    e.new, e.retried, e.again, e.before = id, rest:sub(1, n), rest:sub(n + 1), values[7]
    e.put, e.of = nil, {values[3] or '', values[4] or ''}
    -- mutant retry not noted
    redis.call('HSET', hash, 'retried_by', e.retried)
    return true
  elseif hash then
    e.shown = values[5] or ''
    e.kept = to ~= 'gone' and kept_keys_dump({hash}) or nil
    -- mutant failed job left
    redis.call('UNLINK', hash)
  end
  redis.call('ZREM', e.key, e.member)
  return true
end

local function moves_put_in(e, to, at)
  if to == 'delayed' then
    e.there = string.format('%.0f', math.ceil(at / 1000))
    redis.call('ZADD', e.key, e.there, e.member)
    return
  end
  -- mutant retry unknown to Horizon
  if e.new then failures_push_retry(e) end
  -- mutant wrong end: RPUSH => LPUSH
  redis.call('RPUSH', list, e.again or e.member)
  -- mutant nobody is woken
  redis.call('RPUSH', notify, '1')
  return list, e.again or e.member
end

local function moves_take_back(e, to, went, seen)
  if to == 'delayed' then return element_leaves_again(e, e.key) end
  local ok, why = out_of_list(went, e.again or e.member, seen)
  if not ok then return nil, why end
  -- mutant notification left
  redis.call('RPOP', notify)
  -- mutant retry left
  if e.new then failures_drop_retry(e) end
  return true
end

local function moves_restorable(e)
  local score = e.key ~= list and redis.call('ZSCORE', e.key, e.member)
  -- mutant undo of another failure: score == e.score and failures_values(e) => true
  if e.new then return score == e.score and failures_values(e) end
  return (e.there or not score) and (not e.kept or kept_keys_restorable(e.kept))
end

local function moves_put_back(e)
  local _, _, hash = failures_keys(e)
  if e.new and e.before then
    redis.call('HSET', hash, 'retried_by', e.before)
  elseif e.new then
    -- mutant note of the retry left
    redis.call('HDEL', hash, 'retried_by')
  else
    if e.kept then kept_keys_restore(e.kept) end
    return element_returns(e)
  end
end
