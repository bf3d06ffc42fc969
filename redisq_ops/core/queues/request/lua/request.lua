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

local function request_get(rid)
  local q = request_cache[rid]
  if q == nil then
    request_known = request_known + 1
    local key = r_ .. rid
    local got = redis.call('HMGET', key, unpack(FIELDS))
    if not got[1] then
      q = false
    else
      local had = {state = got[1]}
      q = {rid = rid, stream = s_ .. rid, state = got[1], had = had}
      for i = 2, #FIELDS do
        local field = FIELDS[i]
        local text = got[i]
        if text == '0' then
          q[field], had[field] = 0, 0
        elseif text then
          local number = corrupt_values_integer(text, key, field)
          q[field], had[field] = number, number
        else
          q[field] = 0
        end
      end
      request_bounds_check(q)
    end
    request_cache[rid] = q
  end
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
  return #digits > #q.upto or #digits == #q.upto and digits > q.upto
end
