-- What asynq's Inspector writes when it runs or deletes a task. `e.member` is the task's id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- IMPLEMENTS: moves_lacks_record
-- KEYS: t_job_ t_pending t_active t_lease t_groups t_unique_
-- USES: element remove_from_list kept_keys stamps type_check
-- mutant message not compared: 'msg', =>
local IDENTITY = {'msg', 'state', 'pending_since', 'group', 'unique_key'}

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
  local key = t_job_ .. e.member
  -- mutant comparison off: e.stamp => stamps_of(key, IDENTITY)
  local task = stamps_fields(key, IDENTITY, e.stamp)
  if not task then return nil end
  if e.key ~= t_pending and not element_scored(e) then return nil end
  if e.dry then return true end
  local ok, why = element_leaves(e, e.key == t_pending and 'list' or 'zset')
  if not ok then return nil, why end
  e.state = task.state
  if task.state == 'aggregating' then
    local group = task.group or ''
    e.group = redis.call('SISMEMBER', t_groups, group) == 1 and group or nil
    -- mutant empty group left: redis.call('SREM', t_groups, group) =>
    if redis.call('EXISTS', e.key) == 0 then redis.call('SREM', t_groups, group) end
  end
  if to == 'waiting' then return true end
  local keys, lock = {key}, lock_of(task.unique_key)
  -- mutant lock left: lock end => nil end
  -- mutant another's lock: redis.call('GET', lock) == e.member => true
  if lock and redis.call('GET', lock) == e.member then keys[2] = lock end
  e.kept = to ~= 'gone' and kept_keys_dump(keys) or nil
  -- mutant record left
  redis.call('UNLINK', unpack(keys))
  return true
end

local function moves_put_in(e)
  -- mutant wrong end: LPUSH => RPUSH
  redis.call('LPUSH', t_pending, e.member)
  -- mutant state not set
  redis.call('HSET', t_job_ .. e.member, 'state', 'pending')
  e.stamp = stamps_of(t_job_ .. e.member, IDENTITY)
  return t_pending, e.member
end

local function moves_take_back(e, to, list, seen)
  -- mutant undo of another task
  if not stamps_fields(t_job_ .. e.member, IDENTITY, e.stamp) then return nil end
  return out_of_list(list, e.member, seen)
end

local function moves_restorable(e)
  local lock = e.kept and e.kept[2]
  if lock and lock[3] >= 0 and lock[3] <= now then e.kept[2] = nil end -- it would have expired
  return not e.kept or kept_keys_restorable(e.kept)
end

local function moves_put_back(e)
  if e.kept then kept_keys_restore(e.kept)
  -- mutant undo forgets the state: 'HSET', t_job_ .. e.member, 'state', e.state => 'EXISTS', t_job_
  else redis.call('HSET', t_job_ .. e.member, 'state', e.state) end
  -- mutant undo forgets the group: redis.call('SADD', t_groups, e.group) =>
  if e.group then redis.call('SADD', t_groups, e.group) end
  return element_returns(e, true)
end
