-- The circular queue: what a change of state does to the list, and to the runs that follow. `seen`:
-- marks of ids that came from other shards -> when; each is taken in once.
-- KEYS: seen body queue spent again meta err dead stat
-- IMPLEMENTS: storage_moved storage_done storage_prepare storage_flush storage_retire
-- USES: list_append state elements restore_elements wake_workers config list_changes storage_again
-- USES: type_check
local ended, reborn = {}, {}

local function storage_moved(id, from, to, r)
  -- mutant what was pushed meanwhile dies with it: from == 'pending' and storage_again(id) => false
  if to == 'dead' and from == 'pending' and storage_again(id) then
    reborn[#reborn + 1] = id -- the run that was pushed meanwhile goes on
    to, r = 'waiting', nil
  end
  if to == 'done' or to == 'gone' then ended[#ended + 1] = id end
  if to == 'waiting' then list_changes_woken = list_changes_woken + 1 end
  if elements_reside(to) and not elements_reside(from) then
    -- mutant what lost its turn goes behind: from == 'pending' and r and r.first > 0 => false
    list_changes_enter(id, from == 'pending' and r and r.first > 0)
  elseif elements_reside(from) and not elements_reside(to) then
    list_changes_leaving[#list_changes_leaving + 1] = id
  end
end

local function storage_done(ids)
  list_append(ended, ids)
  if elements_rotate then list_append(list_changes_leaving, ids) end
end

-- A flush reads these keys after its first write.
local function storage_prepare()
  local changes = #list_changes_leaving + #list_changes_back + #list_changes_front
  if #ended + changes + #state_begun + #state_owed == 0 then return end
  type_check_key(body, 'hash')
  type_check_key(queue, 'list')
  type_check_key(spent, 'hash')
  type_check_key(again, 'hash')
end

local function storage_flush()
  state_write_runs()
  if #ended > 0 then
    redis.call('HDEL', body, unpack(ended))
    -- mutant the next run outlives its id
    if state_follows ~= false then redis.call('HDEL', again, unpack(ended)) end
  end
  if #reborn > 0 then
    for _, key in ipairs({meta, err}) do redis.call('HDEL', key, unpack(reborn)) end
    redis.call('ZREM', dead, unpack(reborn))
  end
  if #list_changes_leaving > 0 then elements_spend(list_changes_leaving) end
  if #list_changes_back > 0 then elements_place(list_changes_back, 'LPUSH') end
  if #list_changes_front > 0 then elements_place_ahead(list_changes_front) end
  if list_changes_woken > 0 then
    if elements_wake then wake_workers(list_changes_woken) end
    if elements_rotate then redis.call('HDEL', stat, 'lap', 'barren', 'vain') end
  end
  ended, reborn = {}, {}
  list_changes_back, list_changes_front, list_changes_leaving, list_changes_woken = {}, {}, {}, 0
end

local function storage_retire(max)
  local old = redis.call('ZRANGE', seen, '-inf', now - config.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  -- mutant what arrived is known for ever: redis.call('ZREM', seen, unpack(old)) => old = {}
  if #old > 0 then redis.call('ZREM', seen, unpack(old)) end
  return #old + restore_elements(max)
end
