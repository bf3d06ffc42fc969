-- Carmine's message queue. Its own keys say where a message is in Carmine's words; ours say it too, and
-- hold what Carmine has no word for. Both are written in one step, so they never differ. Waiting and
-- delayed messages are in one sorted set of ready times; only the time tells `queued-with-backoff`.
-- KEYS: locks backoffs nattempts finished body next delay lease dead trash
-- IMPLEMENTS: storage_waiting_zset storage_moved storage_done storage_score storage_flush
-- USES: list_append deliveries visible bulk_write config counters record wake_workers
local storage_waiting_zset = delay
local moved = {}
local in_sight = {waiting = true, delayed = true, pending = true, done = true}

local function storage_moved(id, from, to, r, value, wait)
  -- mutant done, and out of sight where it arrives: or from == 'transit' =>
  if to ~= 'done' or from == 'transit' then
    moved[#moved + 1] = {id = id, from = from, to = to, r = r}
  end
  if to ~= 'done' then return end
  deliveries_ended[#deliveries_ended + 1] = id
  if wait > 0 then -- equal messages are refused for so long
    local n = #deliveries_refusing
    deliveries_refusing[n + 1], deliveries_refusing[n + 2] = id, now + wait
  end
end

local function storage_done(ids) list_append(deliveries_ended, ids) end

-- A done message has the time until which equal ones are refused.
local function storage_score(id, state)
  if state == 'done' then
    local over = redis.call('SISMEMBER', finished, id) == 1
    return over and (redis.call('HGET', backoffs, id) or '0') or nil
  end
  local zset = {pending = lease, delayed = delay, waiting = delay, dead = dead, trash = trash}
  return zset[state] and redis.call('ZSCORE', zset[state], id) or nil
end

-- Write what Carmine sees of a message: its lock or its backoff, and how often it was tried.
local function place(row)
  local id, held = row.id, row.to == 'pending'
  local at = tonumber(redis.call('ZSCORE', held and lease or delay, id))
  local tries = record_attempts(row.r) + (held and 1 or 0)
  if held then visible_add(visible_puts, locks, id, at) end
  if not held and at > now then
    visible_add(visible_puts, backoffs, id, at)
  else
    visible_add(visible_cuts, backoffs, id)
  end
  -- mutant attempts not counted there: tries > 0 => false
  if tries > 0 then
    visible_add(visible_puts, nattempts, id, tries)
  else
    visible_add(visible_cuts, nattempts, id)
  end
end

local function storage_flush()
  if #deliveries_ended > 0 then
    redis.call('HDEL', locks, unpack(deliveries_ended))
    bulk_write_members(finished, deliveries_ended)
    if #deliveries_refusing > 0 then redis.call('HSET', backoffs, unpack(deliveries_refusing)) end
    deliveries_ended, deliveries_refusing = {}, {}
  end
  local coming, going, dying, ready, shown = {}, {}, {}, 0, 0
  for _, row in ipairs(moved) do
    local id, from, to = row.id, row.from, row.to
    -- mutant locks that stay: from == 'pending' and to ~= 'pending' => false
    if from == 'pending' and to ~= 'pending' then visible_add(visible_cuts, locks, id) end
    -- mutant done, and gone from there: visible_add(visible_parts, finished, id) =>
    if from == 'done' then visible_add(visible_parts, finished, id) end
    if in_sight[to] then
      if not in_sight[from] then coming[#coming + 1] = id end
      if not in_sight[from] and from ~= 'transit' then shown = shown + 1 end
      if to == 'waiting' or to == 'delayed' then ready = ready + 1 end
      if to ~= 'done' then place(row) end
    elseif to == 'gone' then
      if in_sight[from] then visible_leave(id) else visible_add(visible_cuts, body, id) end
      visible_add(visible_cuts, next, id)
    elseif in_sight[from] then
      local list = to == 'dead' and dying or going
      list[#list + 1] = id
    end
  end
  visible_hide(going)
  visible_hide(visible_revive(dying))
  visible_show(coming)
  -- A rebalance scans one hash after the other: this tells it that a message went back.
  if shown > 0 and config.layout then counters_add('shown', shown) end
  visible_write()
  if ready > 0 then wake_workers(ready) end
  moved = {}
end
