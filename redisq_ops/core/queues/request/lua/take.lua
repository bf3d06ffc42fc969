-- Take up to n sub-requests, highest priority first, round robin among the requests of one priority.
-- Everything that may fail is checked before anything is popped.
-- KEYS: delay again_ trash prios p_ edited meta
-- ARGV: caller seq n lease_ms consumer
-- USES: deliver reclaim_expired config counters history idempotency record request request_types
-- USES: storage_payload take_rate take_reply transitions type_check request_tokens
-- TYPES: once
-- CHECKS: meta
-- RARELY: cancelled done gone turn
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns a take's reply (take_reply.lua).
local earlier = idempotency_replayed()
if earlier then return take_reply_again(earlier, storage_payload) end
history_by = consumer

n = take_rate_allows(tonumber(n))
if config.aging > 0 then counters_add('turn', 0) end
-- mutant delayed ones back too early: now_text => '+inf'
local due = redis.call('ZRANGE', delay, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', '16')
for i, r in ipairs(record_read(due)) do transitions_move(due[i], 'delayed', 'waiting', 0, r) end
local begun = #due + reclaim_expired(16) > 0 -- then an error ends the call, the next take reports it
if begun then transitions_flush() end

local budget = n + 64
local taken, payloads, retried = {}, {}, {}

local function number_of(entry)
  return string.sub(entry, -2) == '-0' and tonumber(string.sub(entry, 1, -3)) or math.huge
end

local function supply(q, want)
  local got, have, sub = {}, 0, string.sub
  if q.again > 0 then
    local numbers = redis.call('ZRANGE', again_ .. q.rid, 0, want - 1)
    local n = #numbers
    if n > 0 then
      local claim = {}
      for i = 1, n do -- skip what another program wrote
        if string.find(numbers[i], '^%d+$') and #numbers[i] < 17 then claim[#claim + 1] = numbers[i] end
      end
      claim[#claim + 1] = 'FORCE' -- none is in the group's pending list
      if #claim > 1 then got = redis.call('XCLAIM', q.stream, 'g', consumer, 0, unpack(claim)) end
      -- mutant what is taken stays to be taken again: ZREMRANGEBYRANK => ZCOUNT
      redis.call('ZREMRANGEBYRANK', again_ .. q.rid, 0, n - 1)
      q.again, have = q.again - n, #got
      for i = 1, have do retried[#taken + i] = true end
    end
  end
  while have < want and budget > 0 do
    local read = redis.pcall('XREADGROUP', 'GROUP', 'g', consumer, 'COUNT', want - have, 'STREAMS',
      q.stream, '>')
    if not read then break end
    if read.err then -- the first read of the call: nothing was written
      request_types_group(q.stream)
      error(read)
    end
    type_check_passed[q.stream] = true
    local entries = read[1][2]
    local foreign = number_of(entries[#entries][1]) > q.total -- another program's entries follow ours
    if not foreign then q.read = number_of(entries[#entries][1]) end
    for i = 1, #entries do
      local entry = entries[i]
      local number = foreign and number_of(entry[1])
      if number and number <= q.total then q.read = number end
      if number and number > q.total then
        q.went.pending[#q.went.pending + 1] = entry[1]
        budget = budget - 1
      -- mutant purged ones delivered: q.trash > 0 => false
      elseif q.trash > 0 and redis.call('ZSCORE', trash, q.rid .. '/' .. sub(entry[1], 1, -3)) then
        q.went.pending[#q.went.pending + 1] = entry[1] -- purged before it was delivered
        budget = budget - 1
      else
        have = have + 1
        got[have] = entry
      end
    end
  end
  q.waiting, q.pending = q.waiting - have, q.pending + have
  local prefix, at = q.rid .. '/', #taken
  for i = 1, have do
    local entry = got[i]
    taken[at + i], payloads[at + i] = prefix .. sub(entry[1], 1, -3), entry[2][2]
  end
end

-- mutant the lowest priority first: ZRANGE => ZREVRANGE
-- mutant a paused queue goes on: config.paused => false
local order = (config.paused or n == 0) and {} or redis.call('ZRANGE', prios, '0', '-1')
if config.aging > 0 and #order > 1 then
  local turn = counters_reserve('turn', 1) + 1
  if turn % config.aging == 0 then
    local at = math.floor(turn / config.aging) % #order + 1
    table.insert(order, 1, table.remove(order, at))
  end
end
local function to_hand_out(q)
  local live = q.state == 'open' or q.state == 'sealed'
  -- mutant one over the limit: limit => limit + 1
  -- mutant a paused request goes on: q.paused ~= 1 and =>
  return live and q.paused ~= 1 and math.min(q.limit - q.pending, q.waiting) or 0
end

-- Check the requests of the tokens before these are popped. Reading from the first request checks its
-- group, as long as nothing was written.
local function looked_at(list)
  local tokens, times, names = redis.call('LRANGE', list, #taken - n, '-1'), {}, {}
  type_check_passed[list] = true
  for k = #tokens, 1, -1 do
    local word = tokens[k]
    if not times[word] then names[#names + 1] = word end
    times[word] = (times[word] or 0) + 1
  end
  local written = begun
  for _, word in ipairs(names) do
    local q = request_get(word:match('^[^|]*'))
    -- mutant tokens of another generation taken: request_tokens_word(q) == word and =>
    if q and request_tokens_word(q) == word and to_hand_out(q) > 0 then
      if written or q.again > 0 then request_types_group(q.stream) end
      written = true
      type_check_key(p_ .. q.priority, 'list')
      if q.trash > 0 then type_check_key(trash, 'zset') end
      if q.again > 0 then
        type_check_key(again_ .. q.rid, 'zset')
        type_check_key(edited, 'hash')
      end
    end
  end
  return #tokens, times, names
end

local stopped = false
for _, priority in ipairs(order) do
  while #taken < n and budget > 0 and not stopped do
    local list = p_ .. priority
    local sound, popped, times, names = true, nil, nil, nil
    if begun then
      sound, popped, times, names = pcall(looked_at, list)
    else
      popped, times, names = looked_at(list)
    end
    if not sound then
      stopped = true
      break
    end
    if popped == 0 then
      redis.call('ZREM', prios, priority)
      begun = true
      break
    end
    for _, word in ipairs(names) do
      local q = request_get(word:match('^[^|]*'))
      budget = budget - 1
      -- mutant tokens of another generation taken: request_tokens_word(q) == word and =>
      if q and request_tokens_word(q) == word and q.priority == tonumber(priority) then
        q.tok = q.tok - times[word]
        request_touch(q)
        local want = math.min(times[word], to_hand_out(q))
        if want > 0 then supply(q, want) end
      end
    end
    redis.call('LTRIM', list, '0', -popped - 1)
    begun = true
  end
end

local reply = {'0', '0', deliver_deadline}
if #taken > 0 then
  local lines = {}
  for i in pairs(retried) do
    lines[i] = redis.call('HGET', meta, taken[i])
    -- mutant what was edited is delivered as it was: redis.call('HGET', edited, taken[i]) or =>
    payloads[i] = redis.call('HGET', edited, taken[i]) or payloads[i]
  end
  reply = deliver(taken, lines, payloads)
  if history_all then for _, id in ipairs(taken) do history_note('taken', id) end end
end
transitions_flush()
if #taken == 0 then reply[1] = tostring(config.paused and 0 or reclaim_expired_watch(consumer)) end
if #taken > 0 then take_rate_stops(#taken == n) end
if #taken < n and (budget <= 0 or stopped) then reply[2] = '1' end
return take_reply_remember(reply, reclaim_expired_dead)
