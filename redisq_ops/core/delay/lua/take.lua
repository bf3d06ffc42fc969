-- Take up to n due entries in the order of their ready times, each under a lease of its own.
-- ARGV: caller seq n lease_ms consumer
-- USES: guard due
-- Returns: when to look again (ms; 0: no need), 1 if more are due now, the deadline (ms), then
-- rows of id receipt failures lost payload.
local said, late = replayed()
if late then return superseded end
by = consumer

local function with_payloads(words)
  local ids = {}
  for i = 4, #words, 4 do ids[#ids + 1] = words[i] end
  local bodies = #ids > 0 and redis.call('HMGET', body, unpack(ids)) or {}
  local reply = {words[1], words[2], words[3]}
  for k = 1, #ids do
    for j = k * 4, k * 4 + 3 do reply[#reply + 1] = tostring(words[j]) end
    reply[#reply + 1] = bodies[k]
  end
  return reply
end
if said then return with_payloads(said) end

if reap(16) > 0 then flush() end
local deadline = now + tonumber(lease_ms)
local words = {'0', '0', tostring(deadline)}
local due = conf.paused and {}
  or redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES')
local ids, ready = {}, {}
for i = 1, #due, 2 do
  ids[#ids + 1] = due[i]
  ready[#ready + 1] = tonumber(due[i + 1])
end
if #ids > 0 then
  local fence = redis.call('HINCRBY', stat, 'fence', #ids) - #ids
  drops[delay] = ids
  for i, r in ipairs(records(ids)) do
    r.receipt = (fence + i) .. '-' .. seq
    r.consumer, r.op, r.since, r.ready = consumer, '-', now, ready[i]
    if r.first == 0 then r.first = now end
    hold(ids[i], r, deadline)
    note('taken', ids[i])
    for _, word in ipairs({ids[i], r.receipt, r.failures, r.lost}) do words[#words + 1] = word end
  end
end
flush()
if #ids == tonumber(n) and #ids > 0 then
  local top = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')
  if top[2] and tonumber(top[2]) <= now then
    words[2] = '1'
    wake_workers(1)
  end
end
if #ids == 0 and not conf.paused then words[1] = tostring(watch(consumer)) end
remember(words)
return with_payloads(words)
