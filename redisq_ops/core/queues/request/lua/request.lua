-- Requests that a call works on: each record is read once and changed here, and the flush writes the
-- fields that differ from `had`. An absent field is 0, in `had` nil; a corrupt one fails the call.
-- `request_touched`: the requests that the flush writes, by id. `request_last`, `request_ahead`: the
-- request that was located last, and the beginning of its entries' ids.
-- KEYS: r_ s_
-- USES: stream request_bounds corrupt_values
local FIELDS = {'state', 'priority', 'limit', 'paused', 'waiting', 'pending', 'delayed', 'done',
  'dead', 'trash', 'again', 'read', 'tok', 'gen', 'bytes', 'total', 'created', 'purged', 'moving',
  'born', 'dropped'}
local request_cache, request_touched = {}, {}
local request_known, REQUEST_MOST = 0, 25 -- how many a call read; each costs as several entries

-- A request whose record has these fields.
local function request_with(rid, had)
  local q = {rid = rid, stream = s_ .. rid, had = had}
  for i = 1, #FIELDS do q[FIELDS[i]] = had[FIELDS[i]] or 0 end
  return q
end

local function request_get(rid)
  local q = request_cache[rid]
  if q ~= nil then return q end
  request_known = request_known + 1
  local key = r_ .. rid
  local got = redis.call('HMGET', key, unpack(FIELDS))
  if got[1] then
    local had = {state = got[1]}
    for i = 2, #FIELDS do
      local field, text = FIELDS[i], got[i]
      had[field] = text == '0' and 0 or corrupt_values_integer(text, key, field)
    end
    q = request_with(rid, had)
    request_bounds_check(q)
  else
    q = false
  end
  request_cache[rid] = q
  return q
end

local function request_touch(q)
  if request_touched[q.rid] then return end
  request_touched[q.rid] = q
  stream_begin(q)
end

local function request_write(q)
  local news, n, had = {}, 0, q.had
  for i = 1, #FIELDS do
    local field = FIELDS[i]
    local value = q[field]
    if value ~= had[field] then
      news[n + 1], news[n + 2], n = field, value == 0 and '0' or value, n + 2 -- numbers are expensive
      had[field] = value
    end
  end
  if n > 0 then redis.call('HSET', r_ .. q.rid, unpack(news)) end
end

local function request_split(id)
  local slash = id:find('/', 1, true)
  if not slash then return nil end
  return id:sub(1, slash - 1), tonumber(id:sub(slash + 1))
end

-- The request of an id, and the entry's number as text. A third of the cost if it is the same request as
-- for the id before, as it mostly is.
local sub, find = string.sub, string.find
local request_ahead, request_last -- that id up to its slash, and its request
local function request_locate(id)
  if request_ahead and find(id, request_ahead, 1, true) == 1 then
    return request_last, sub(id, #request_ahead + 1)
  end
  local slash = find(id, '/', 1, true)
  if not slash then return nil end
  request_ahead, request_last = sub(id, 1, slash), request_get(sub(id, 1, slash - 1))
  return request_last, sub(id, slash + 1)
end

-- Whether an entry was never delivered. It compares text, since conversion is expensive.
local function request_unread(q, digits)
  if q.told ~= q.read then q.told, q.upto = q.read, string.format('%.0f', q.read) end
  -- mutant numbers compared as words: #digits > #q.upto or #digits == #q.upto and =>
  return #digits > #q.upto or #digits == #q.upto and digits > q.upto
end
