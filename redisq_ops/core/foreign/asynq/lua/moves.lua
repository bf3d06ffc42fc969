-- What asynq's Inspector writes when it runs or deletes a task. `e.member` is the task's id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- IMPLEMENTS: moves_lacks_record
-- KEYS: t_job_ t_pending t_active t_lease t_groups t_unique_
-- USES: element remove_from_list kept_keys stamps type_check
-- mutant message not compared: 'msg', =>
local IDENTITY = {'msg', 'state', 'pending_since', 'group', 'unique_key'}

local function values_of(e) return redis.call('HMGET', t_job_ .. e.member, unpack(IDENTITY)) end

-- The lock of a unique task, if it is one of this queue's.
local function lock_of(key)
  return key and key:sub(1, #t_unique_) == t_unique_ and key or nil
end

local function moves_fit(e)
  local key = t_job_ .. e.member
  type_check_key(e.key, (e.key == t_pending or e.key == t_active) and 'list' or 'zset')
  type_check_key(t_pending, 'list')
  type_check_key(t_lease, 'zset')
  -- mutant groups' type check off
  type_check_key(t_groups, 'set')
  -- mutant type check off
  type_check_key(key, 'hash')
  local lock = lock_of(redis.call('HGET', key, 'unique_key'))
  -- mutant lock's type check off: type_check_key(lock, 'string') =>
  if lock then type_check_key(lock, 'string') end
end

-- A worker has an active task until its lease ends.
local function moves_lacks_record(e)
  local till = e.key == t_active and redis.call('ZSCORE', t_lease, e.member)
  if till and tonumber(till) >= now / 1000 then return nil, 'busy' end
  return redis.call('EXISTS', t_job_ .. e.member) == 0
end

local function moves_take_out(e, to)
  local values = values_of(e)
  local _, state, _, group, unique = unpack(values)
  -- mutant comparison off
  if stamps_of(values) ~= e.stamp then return nil end
  if e.key ~= t_pending and not element_scored(e) then return nil end
  if e.dry then return true end
  local ok, why = element_leaves(e, e.key == t_pending and 'list' or 'zset')
  if not ok then return nil, why end
  e.state = state
  if state == 'aggregating' then
    group = group or ''
    e.group = redis.call('SISMEMBER', t_groups, group) == 1 and group or nil
    -- mutant empty group left: redis.call('SREM', t_groups, group) =>
    if redis.call('EXISTS', e.key) == 0 then redis.call('SREM', t_groups, group) end
  end
  if to == 'waiting' then return true end
  local keys, lock = {t_job_ .. e.member}, lock_of(unique)
  -- mutant lock left: lock end => nil end
  -- mutant another's lock: redis.call('GET', lock) == e.member => true
  if lock and redis.call('GET', lock) == e.member then keys[2] = lock end
  e.shown, e.kept = values[1] or nil, to ~= 'gone' and kept_keys_dump(keys) or nil
  -- mutant record left
  redis.call('UNLINK', unpack(keys))
  return true
end

local function moves_put_in(e)
  -- mutant wrong end: LPUSH => RPUSH
  redis.call('LPUSH', t_pending, e.member)
  -- mutant state not set
  redis.call('HSET', t_job_ .. e.member, 'state', 'pending')
  e.stamp = stamps_of(values_of(e))
  return t_pending, e.member
end

local function moves_take_back(e, to, list, seen)
  -- mutant undo of another task
  if stamps_of(values_of(e)) ~= e.stamp then return nil end
  return out_of_list(list, e.member, seen)
end

local function moves_restorable(e) return not e.kept or kept_keys_restorable(e.kept) end

local function moves_put_back(e)
  if e.kept then kept_keys_restore(e.kept)
  -- mutant undo forgets the state: 'HSET', t_job_ .. e.member, 'state', e.state => 'EXISTS', t_job_
  else redis.call('HSET', t_job_ .. e.member, 'state', e.state) end
  -- mutant undo forgets the group: redis.call('SADD', t_groups, e.group) =>
  if e.group then redis.call('SADD', t_groups, e.group) end
  return element_returns(e, true)
end
