-- Take up to n sub-requests, highest priority first, round robin among the requests of one.
-- The first write that could refuse comes after all reads; a re-sent take gets the same deliveries.
-- ARGV: caller seq n lease_ms consumer
-- USES: guard due
-- Returns: when to look again (ms; 0: no need), 1 if there may be more now, the deadline (ms), then
-- rows of id receipt failures lost payload.
local said, late = replayed()
if late then return superseded end
by = consumer

local function with_payloads(words)
  local reply = {words[1], words[2], words[3]}
  for i = 4, #words, 4 do
    local rid, n = words[i]:match('^(.-)/(%d+)$')
    local found = redis.call('XRANGE', s_ .. rid, n .. '-0', n .. '-0')
    for j = i, i + 3 do reply[#reply + 1] = words[j] end
    reply[#reply + 1] = found[1] and found[1][2][2] or false
  end
  return reply
end
if said then return with_payloads(said) end

n = tonumber(n)
local due = redis.call('ZRANGE', delay, '-inf', now, 'BYSCORE', 'LIMIT', 0, 16)
for i, r in ipairs(records(due)) do move(due[i], 'delayed', 'waiting', 0, r) end
if #due + reap(16) > 0 then flush() end

local deadline = now + tonumber(lease_ms)
local words, reply, payloads = {'0', '0', tostring(deadline)}, {}, {}
local budget = n + 64
local taken = {}

local function deliver(q, want)
  local got = {}
  if q.again > 0 then
    local rows = redis.call('XPENDING', q.stream, 'g', '-', '+', math.min(want, q.again), '~waiting')
    if #rows > 0 then
      local ids = {}
      for i, row in ipairs(rows) do ids[i] = row[1] end
      got = redis.call('XCLAIM', q.stream, 'g', consumer, 0, unpack(ids))
      q.again = q.again - #got
    end
  end
  while #got < want and budget > 0 do
    local read = redis.call('XREADGROUP', 'GROUP', 'g', consumer, 'COUNT', want - #got, 'STREAMS',
      q.stream, '>')
    if not read then break end
    for _, entry in ipairs(read[1][2]) do
      local k = tonumber(entry[1]:match('^(%d+)'))
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
  for _, entry in ipairs(got) do
    taken[#taken + 1] = q.rid .. '/' .. entry[1]:match('^(%d+)')
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
          if want > 0 then deliver(q, want) end
        end
      end
    end
  end
end

if #taken > 0 then
  local fence = redis.call('HINCRBY', stat, 'fence', #taken) - #taken
  for i, r in ipairs(records(taken)) do
    r.receipt = (fence + i) .. '-' .. seq
    r.consumer, r.op, r.since = consumer, '-', now
    if r.first == 0 then r.first = now end
    hold(taken[i], r, deadline)
    note('taken', taken[i])
    for _, word in ipairs({taken[i], r.receipt, r.failures, r.lost}) do words[#words + 1] = word end
  end
end
flush()
if #taken == 0 then words[1] = tostring(conf.paused and 0 or watch(consumer)) end
if #taken < n and budget <= 0 then words[2] = '1' end
remember(words)
for i = 1, 3 do reply[i] = words[i] end
for i = 1, #taken do
  for j = i * 4, i * 4 + 3 do reply[#reply + 1] = tostring(words[j]) end
  reply[#reply + 1] = payloads[i]
end
return reply
