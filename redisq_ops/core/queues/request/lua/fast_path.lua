-- The fast path of `settle_and_take`, for what a worker usually sends: one entry was acknowledged, the
-- next one is of the same request, and nothing else has to be done first. It stores and returns what
-- `settle` and `take` would. In any other case, also for a corrupt value, it writes nothing and returns
-- nil; then these two do the step, and report what is wrong.
-- tests/core/engine/test_settle_and_take.py compares both ways over random stories. A worker of one
-- entry at a time costs the server half as much by this one, and takes a quarter to a third less time.
-- KEYS: meta err lease delay callers cfg stat rate_ r_ s_ p_ prios edited
-- NEEDS: caller seq consumer told take_caller take_seq n lease_ms
-- IMPLEMENTS: storage_fast_path

-- Fields of a hash as numbers by name, and their texts in order; nil if one is no whole number.
local function numbers(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  if found.err then return nil end
  for i, name in ipairs({...}) do
    local text = found[i] or '0'
    if text ~= '0' and (#text > 15 or not text:find('^[1-9]%d*$')) then return nil end
    found[i], found[name] = text, text + 0
  end
  return found
end

local function none_due(zset)
  local due = redis.pcall('ZRANGE', zset, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', '1')
  return not due.err and #due == 0
end

-- Whether a call is new to its caller's slot, and not sent again.
local function is_new(slot, number)
  local last = not slot and '0' or slot:match('^(%d+) %d+ ')
  return last and tonumber(last) < tonumber(number)
end

-- The request, if its next entry may be taken now and its first token stands before all others.
local function ready_request(rid)
  local record = r_ .. rid
  local q = numbers(record, 'waiting', 'priority', 'gen')
  if not q or q.waiting == 0 then return nil end
  if redis.pcall('ZRANGE', prios, '0', '0')[1] ~= q[2] then return nil end
  q.tokens, q.word = p_ .. q[2], rid .. '|' .. q[3]
  if redis.pcall('LRANGE', q.tokens, '-1', '-1')[1] ~= q.word then return nil end
  local state = redis.call('HGET', record, 'state')
  local r = numbers(record, 'pending', 'limit', 'tok', 'total', 'done', 'paused', 'trash', 'again')
  if not r or state ~= 'open' and state ~= 'sealed' or r.paused + r.trash + r.again > 0
    or r.pending < 1 or r.pending > r.limit or r.limit > 1000 then
    return nil
  end
  -- As many are pending after the step as before. If it lacks more than one token, some were lost.
  q.lacking = math.min(r.limit - r.pending, q.waiting - 1) - r.tok + 1
  q.record, q.stream, q.total, q.done, q.tok = record, s_ .. rid, r.total, r.done, r.tok
  return q.lacking < 2 and q or nil
end

local function storage_fast_path()
  local rid, entry, receipt = told:match('^([^ /*]+)/(%d+) ([^ |]+)$')
  if not rid or receipt == '-' or n ~= '1' or #ARGV >= first then return nil end
  local id, q = rid .. '/' .. entry, ready_request(rid)
  local line = q and redis.pcall('HGET', meta, id)
  if type(line) ~= 'string' or line:find(receipt .. ' ', 1, true) ~= 1 then return nil end
  local slots = redis.pcall('HMGET', callers, caller, take_caller, ':clock')
  if slots.err or not is_new(slots[1], seq) or not is_new(slots[2], take_seq)
    or slots[3] and (tonumber(slots[3]) or now + 1) > now then -- the clock fell back
    return nil
  end
  local settings = redis.pcall('HMGET', cfg, 'paused', 'aging', 'history', 'rate')
  if settings.err or settings[1] or settings[2] or settings[3] == 'all' or settings[4] then
    return nil
  end
  local counts, errors = numbers(stat, 'done', 'waiting', 'fence'), redis.pcall('HLEN', err)
  if not counts or type(errors) ~= 'number' or redis.call('EXISTS', edited) == 1 then return nil end
  if not none_due(lease) or not none_due(delay) then return nil end

  -- The first write: it changes nothing if the key isn't a stream with the group.
  local read = redis.pcall('XREADGROUP', 'GROUP', 'g', consumer, 'COUNT', '1', 'STREAMS', q.stream, '>')
  if not read or read.err then return nil end
  local found, fields = unpack(read[1][2][1])
  local number = found:match('^(%d+)%-0$')
  if not number or tonumber(number) > q.total then -- another program wrote it
    redis.call('XACK', q.stream, 'g', found)
    return nil
  end
  redis.call('ZREM', lease, id)
  redis.call('HDEL', meta, id)
  if errors > 0 then redis.call('HDEL', err, id) end
  redis.call('XACK', q.stream, 'g', entry)
  redis.call('XDEL', q.stream, entry)
  if q.lacking == 1 then redis.call('LPUSH', q.tokens, q.word) else q.tok = q.tok - 1 end
  redis.call('LTRIM', q.tokens, '0', '-2')
  local hour = rate_ .. math.floor(now / 3600000)
  if redis.pcall('HINCRBY', hour, math.floor(now / 60000) % 60 .. 'o', '1') == 1 then
    redis.call('EXPIRE', hour, '90000')
  end

  local taken, fence = rid .. '/' .. number, counts.fence + 1 .. ''
  local given, deadline = fence .. '-' .. take_seq, string.format('%.0f', now + tonumber(lease_ms))
  local reply = {'0', '0', deadline, given, taken}
  redis.call('ZADD', lease, deadline, taken)
  redis.call('HSET', meta, taken,
    table.concat({given, '0 0', now_text, now_text, consumer, '- - 0'}, ' '))
  redis.call('HSET', q.record, 'waiting', q.waiting - 1, 'done', q.done + 1, 'read', number,
    'tok', q.tok)
  redis.call('HSET', stat, 'waiting', counts.waiting - 1, 'done', counts.done + 1, 'fence', fence)
  redis.call('HSET', callers, caller, seq .. ' ' .. now_text .. ' done', take_caller,
    take_seq .. ' ' .. now_text .. ' ' .. table.concat(reply, ' '), ':clock', now_text)
  reply[6], reply[7] = '', {fields[2]}
  return {{'done'}, reply}
end
