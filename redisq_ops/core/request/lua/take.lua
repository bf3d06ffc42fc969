-- Take up to n sub-requests, highest priority first, round robin among the requests of one.
-- The first write that could refuse comes after all reads; a re-sent take gets the same deliveries.
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver due content
-- FLAGS: allow-oom
-- Returns: when to look again (ms; 0: no need), 1 if there may be more now, the deadline (ms), then
-- rows of id receipt failures lost payload.
local said, late = replayed()
if late then return superseded end
by = consumer

-- The words kept for a re-send: when to look again, more, deadline, first fence, then the ids.
if said then
  local ids, reply = {}, {said[1], said[2], said[3]}
  for i = 5, #said do ids[#ids + 1] = said[i] end
  for i, r in ipairs(records(ids)) do
    if r.receipt == (said[4] + i) .. '-' .. seq then
      local payload = content(ids[i])
      if payload then -- else somebody removed it by hand: its lease will run out
        for _, word in ipairs({ids[i], r.receipt, tostring(r.failures), tostring(r.lost),
          payload}) do reply[#reply + 1] = word end
      end
    end
  end
  return reply
end

n = tonumber(n)
local due = redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, 16)
for i, r in ipairs(records(due)) do move(due[i], 'delayed', 'waiting', 0, r) end
if #due + reap(16) > 0 then flush() end

local budget = n + 64
local taken, payloads, retried = {}, {}, {}

local function supply(q, want)
  local got = {}
  if q.again > 0 then
    local rows = redis.call('XPENDING', q.stream, 'g', '-', '+', math.min(want, q.again), '~waiting')
    if #rows > 0 then
      local ids = {}
      for i, row in ipairs(rows) do ids[i] = row[1] end
      got = redis.call('XCLAIM', q.stream, 'g', consumer, 0, unpack(ids))
      q.again = q.again - #got
      for i = 1, #got do retried[#taken + i] = true end
    end
  end
  while #got < want and budget > 0 do
    local read = redis.call('XREADGROUP', 'GROUP', 'g', consumer, 'COUNT', want - #got, 'STREAMS',
      q.stream, '>')
    if not read then break end
    for _, entry in ipairs(read[1][2]) do
      local k = tonumber(entry[1]:sub(1, -3))
      q.read = k
      if q.trash > 0 and redis.call('ZSCORE', trash, q.rid .. '/' .. k) then
        q.acks[#q.acks + 1] = entry[1] -- purged before anyone had it
        budget = budget - 1
      else
        got[#got + 1] = entry
      end
    end
  end
  q.waiting, q.pending = q.waiting - #got, q.pending + #got
  local prefix = q.rid .. '/'
  for _, entry in ipairs(got) do
    taken[#taken + 1] = prefix .. entry[1]:sub(1, -3)
    payloads[#taken] = entry[2][2]
  end
  touch(q)
end

local order = conf.paused and {} or redis.call('ZRANGE', prios, 0, -1)
if conf.aging > 0 and #order > 1 then
  local turn = redis.call('HINCRBY', stat, 'turn', 1)
  if turn % conf.aging == 0 then
    local at = math.floor(turn / conf.aging) % #order + 1
    table.insert(order, 1, table.remove(order, at))
  end
end
for _, priority in ipairs(order) do
  while #taken < n and budget > 0 do
    local tokens = redis.call('RPOP', p_ .. priority, n - #taken)
    if not tokens then
      redis.call('ZREM', prios, priority)
      break
    end
    local times, names = {}, {}
    for _, word in ipairs(tokens) do
      if not times[word] then names[#names + 1] = word end
      times[word] = (times[word] or 0) + 1
    end
    for _, word in ipairs(names) do
      local q = request(word:match('^[^|]+'))
      budget = budget - 1
      if q and token(q) == word and q.priority == tonumber(priority) then
        q.tok = q.tok - times[word]
        touch(q)
        if (q.state == 'open' or q.state == 'sealed') and q.paused ~= 1 then
          local want = math.min(times[word], q.limit - q.pending, q.waiting)
          if want > 0 then supply(q, want) end
        end
      end
    end
  end
end

local reply, fence = {'0', '0', deadline}, 0
if #taken > 0 then
  local lines = {}
  for i in pairs(retried) do
    lines[i] = redis.call('HGET', meta, taken[i])
    payloads[i] = redis.call('HGET', edited, taken[i]) or payloads[i]
  end
  reply, fence = deliver(taken, lines, payloads)
  if every then for _, id in ipairs(taken) do note('taken', id) end end
end
flush()
if #taken == 0 then reply[1] = tostring(conf.paused and 0 or watch(consumer)) end
if #taken < n and budget <= 0 then reply[2] = '1' end
return remember_taken(reply, fence, taken)
