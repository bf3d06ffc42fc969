-- Carmine's message queue. Its own keys say where a message is in its users' words; ours say it too,
-- and beside them what Carmine has no word for. Both are written in one step, so they never differ.
-- Waiting and delayed are one sorted set of ready times: time alone tells `queued-with-backoff`.
-- KEYS: messages locks backoffs nattempts requeued finished body next
-- USES: list_append end_deliveries type_check visible_state sweep_circle bulk_write wake_workers
-- USES: history counters
local waiting_zset = delay
local moved = {}
local in_sight = {waiting = true, delayed = true, pending = true}

local function room_move(id, from, to, r, value, wait)
  if to ~= 'done' then
    moved[#moved + 1] = {id = id, from = from, to = to, r = r}
    return
  end
  ended[#ended + 1] = id
  if wait > 0 then -- equal messages are to be refused for so long
    refusing[#refusing + 1], refusing[#refusing + 2] = id, now + wait
  end
end

local function room_done(ids) append(ended, ids) end

local function room_score(id, state)
  local zset = {pending = lease, delayed = delay, waiting = delay, dead = dead, trash = trash}
  return zset[state] and redis.call('ZSCORE', zset[state], id) or nil
end

-- In Carmine's sight: its lock or its backoff, and how often it was tried.
local function place(row)
  local id, held = row.id, row.to == 'pending'
  local at = tonumber(redis.call('ZSCORE', held and lease or delay, id))
  local tries = row.r.failures + row.r.lost + (held and 1 or 0)
  if held then add(puts, locks, id, at) end
  if not held and at > now then add(puts, backoffs, id, at) else add(cuts, backoffs, id) end
  if tries > 0 then add(puts, nattempts, id, tries) else add(cuts, nattempts, id) end
end

local function room_flush()
  if #ended > 0 then
    redis.call('HDEL', locks, unpack(ended))
    put_members(finished, ended)
    if #refusing > 0 then redis.call('HSET', backoffs, unpack(refusing)) end
    ended, refusing = {}, {}
  end
  local coming, going, dying, ready = {}, {}, {}, 0
  for _, row in ipairs(moved) do
    local id, from, to = row.id, row.from, row.to
    if from == 'pending' and to ~= 'pending' then add(cuts, locks, id) end
    if in_sight[to] then
      if not in_sight[from] then coming[#coming + 1] = id end
      if to ~= 'pending' then ready = ready + 1 end
      place(row)
    elseif to == 'gone' then
      if in_sight[from] then leave_sight(id) else add(cuts, body, id) end
      add(cuts, next, id)
    elseif in_sight[from] then
      local list = to == 'dead' and dying or going
      list[#list + 1] = id
    end
  end
  hide(going)
  hide(revive(dying))
  show(coming)
  write_sight()
  if ready > 0 then wake_workers(ready) end
  moved = {}
end
