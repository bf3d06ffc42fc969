-- Messages of Celery that wait in a list: removed by their exact bytes, and put back. And results of
-- failed tasks (`e.stamp`: the digest of the result; `e.member`: the task's id), which are removed, or
-- sent again: then the message comes where Celery puts new ones.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_result_
-- USES: element remove_from_list kept_keys type_check
local function is_result(e) return e.stamp ~= '' end

local function moves_fit(e)
  -- mutant result's type check off
  if is_result(e) then type_check_key(t_result_ .. e.member, 'string') end
  -- mutant type check off: type_check_key(e.key, 'list') =>
  if e.put or not is_result(e) then type_check_key(e.key, 'list') end
end

local function moves_take_out(e, to)
  local key = t_result_ .. e.member
  if is_result(e) then
    local data = redis.call('GET', key)
    -- mutant comparison off: redis.sha1hex(data) == e.stamp => true
    if not (data and redis.sha1hex(data) == e.stamp) then return nil end
  end
  if e.dry then return true end
  if not is_result(e) then return element_leaves(e, 'list') end
  e.kept = to ~= 'gone' and kept_keys_dump({key})
  -- mutant result left
  redis.call('UNLINK', key)
  return true
end

-- Where Celery puts new messages. Nothing is put into a list of another priority.
local function moves_put_in(e)
  -- mutant wrong end: LPUSH => RPUSH
  redis.call('LPUSH', e.key, e.put)
  return e.key, e.put
end

local function moves_take_back(e, _, list, seen) return out_of_list(list, e.put, seen) end

local function moves_restorable(e) return not is_result(e) or kept_keys_restorable(e.kept) end

local function moves_put_back(e)
  if not is_result(e) then return element_returns(e, true) end
  -- mutant undo forgets the result
  kept_keys_restore(e.kept)
end
