-- Take up to n entries, each under a lease of its own and each of the client whose turn it is.
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired select_clients
-- LOOKS: meta body owner clients packing holes
-- FLAGS: allow-oom
-- Returns what `taken` says, each payload with its client in front.
local said, late = replayed()
if late then return superseded end
if said then return taken_before(said, function(id) return redis.call('HGET', body, id) end, '') end
by = consumer

n = tonumber(n)
local due = redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', '16')
for i, r in ipairs(records(due)) do move(due[i], 'delayed', 'waiting', 0, r) end
local begun = #due + reap(16) > 0 -- then whatever can't go on ends here, and the next take says why
if begun then flush() end

local ids, whose, latest, start, stopped = {}, {}, 0, 0, false
if not conf.paused then
  local names = redis.call('ZRANGE', ring, '0', n - 1)
  local sound, why = pcall(open_accounts, names)
  if not sound and not begun then error({err = why}) end -- pcall makes the table a string
  stopped = not sound
  if sound then ids, whose, latest, start = served(n, names) end
end

local reply = {'0', '0', deadline}
if #ids > 0 then
  local lines = redis.call('HMGET', meta, unpack(ids))
  reply = deliver(ids, lines, redis.call('HMGET', body, unpack(ids)))
  local owned = {}
  for i = 1, #ids do
    local id = ids[i]
    owned[2 * i - 1], owned[2 * i] = id, whose[i]
    if every then note('taken', id .. '|' .. whose[i]) end
  end
  put_fields(owner, owned)
end
flush()
if #ids > 0 then
  local others, present, before = redis.call('ZCARD', ring), virtual_time()
  latest = math.max(latest, before)
  -- With nobody left to serve nobody is owed anything: who comes next begins level with all.
  redis.call('HSET', stat, 'vt', string.format('%.0f', others > 0 and math.max(present, start)
    or latest), 'vt_latest', string.format('%.0f', latest))
  if others > 0 and (#ids == n or hole_budget <= 0) then
    reply[2] = '1'
    wake_workers(1)
  end
elseif hole_budget <= 0 or stopped then
  reply[2] = '1'
elseif not conf.paused then
  reply[1] = tostring(watch(consumer))
end
return remember_taken(reply)
