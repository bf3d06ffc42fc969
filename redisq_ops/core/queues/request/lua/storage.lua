-- Requests. The record r_<rid> is the truth; a token (the request's id in the list of its priority)
-- is a hint that there may be work, and publication is a hint too.
-- A sub-request's stream entry is <n>-0, which the server knows by <n> too; `read` is the highest n ever
-- delivered, `again` how many are in again_<rid>. (`stream` has where they are.)
-- KEYS: p_ prios open fin retire res_ edited
-- USES: list_append request_records wake_workers history counters in_transit_count list_of
local waiting_zset = nil
local ended = {}
local edits -- whether any payload was replaced; asked once
local function some_edited()
  if edits == nil then edits = redis.call('EXISTS', edited) == 1 end
  return edits
end

-- Results go to a hash of a thousand sub-requests; `entry` says to which.
local function keep_result(q, field, value, entry)
  local key = res_ .. q.rid .. ':' .. math.floor(entry / 1000)
  q.results = q.results or {}
  local rows = listed(q.results, key)
  rows[#rows + 1], rows[#rows + 2] = field, value
end

local function room_move(id, from, to, r, value)
  local q, entry = located(id)
  if not q then return false end -- its record was evicted or removed by hand: no reason to stop
  touch(q)
  q[from] = q[from] - 1
  local into = to == 'gone' and 'purged' or to
  q[into] = q[into] + 1
  if to == 'gone' then -- so that it is told from what is done
    keep_result(q, '-' .. entry, '', entry)
  end
  if to == 'trash' and from ~= 'dead' and (r.op or ''):find(MOVED) then q.moving = q.moving + 1 end
  -- Only the reading position speaks for one that nobody had.
  if (from == 'waiting' or from == 'trash') and unread(q, entry) then
    if to == 'gone' then q.dels[#q.dels + 1] = entry end
    return known >= KNOWN_MOST and 'full' or nil
  end
  local went = from ~= to and q.went[from]
  if went then went[#went + 1] = entry end
  local come = q.come[to]
  if come then
    local n = come.n
    come[n + 1], come[n + 2], come.n = entry, entry, n + 2
  elseif to == 'pending' then
    local list = q.claims[r.consumer]
    if not list then list = {}; q.claims[r.consumer] = list end
    list[#list + 1] = entry
  else
    if to == 'done' or to == 'gone' then
      q.dels[#q.dels + 1] = entry
      if some_edited() then ended[#ended + 1] = id end
    end
    if value then
      if q.bytes + #value > DEFAULT.max_results then
        q.dropped = q.dropped + 1
      else
        q.bytes = q.bytes + #value
        keep_result(q, entry, value, entry)
      end
    end
  end
  return known >= KNOWN_MOST and 'full' or nil
end

-- Deliveries that were acknowledged: most of what happens, and mostly of one request.
local function room_done(ids)
  local q, list, n
  for k = 1, #ids do
    local its, entry = located(ids[k])
    if its and its ~= q then -- none: its record was evicted or removed by hand
      touch(its)
      q, list, n = its, its.ends, #its.ends
    end
    if its then
      n = n + 1
      list[n] = entry
      q.pending, q.done = q.pending - 1, q.done + 1
    end
  end
  if some_edited() then append(ended, ids) end
end

local function room_again() return nil end

-- Whether an entry is in a state: its score there (waiting: its request's beginning), or nil.
local function room_score(id, state)
  local rid, n = split(id)
  local q = rid and request(rid)
  if not q or not n or rid .. '/' .. n ~= id then return nil end -- 07 or 0x7 is no 7
  if state ~= 'waiting' then
    local zset = ({pending = lease, delayed = delay, dead = dead, trash = trash})[state]
    return zset and redis.call('ZSCORE', zset, id) or nil
  end
  if n > q.total or n < 1 then return nil end
  local entry, began = n .. '-0', string.format('%.0f', q.created)
  if n > q.read then -- purged before anyone had it: in the trash, or gone from the stream
    local there = not redis.call('ZSCORE', trash, id) and redis.call('XRANGE', q.stream, entry, entry)
    return there and there[1] and began or nil
  end
  local held = q.again > 0 and redis.call('ZSCORE', again_ .. rid, n)
  return held and began or nil
end

-- Tokens in the list = what may be taken now. Surplus ones are dropped when they are popped.
local function lacking(q)
  return q.paused == 1 and 0 or math.min(q.limit - q.pending, q.waiting) - q.tok
end

local function sync(q)
  local short = lacking(q)
  if short <= 0 or (q.state ~= 'open' and q.state ~= 'sealed') then return end
  local words, word = {}, token(q)
  for i = 1, short do words[i] = word end
  redis.call('LPUSH', p_ .. q.priority, unpack(words))
  redis.call('ZADD', prios, q.priority, q.priority)
  q.tok = q.tok + short
  wake_workers(short)
end

local function settle_state(q)
  local live = q.waiting + q.pending + q.delayed + q.moving
  if q.state == 'sealed' and live == 0 then
    q.state = 'done'
    redis.call('ZREM', open, q.rid)
    redis.call('ZADD', fin, now_text, q.rid)
    redis.call('ZADD', retire, now + conf.keep_ms, q.rid)
    redis.call('HSET', r_ .. q.rid, 'closed', now_text)
    redis.pcall('PUBLISH', r_ .. q.rid, 'done')
    note('request-done', q.rid)
  elseif q.state == 'done' and live > 0 then
    q.state = 'sealed'
    redis.call('ZADD', open, q.created, q.rid)
    redis.call('ZREM', fin, q.rid)
    redis.call('ZREM', retire, q.rid)
    redis.call('HDEL', r_ .. q.rid, 'closed')
  end
  if q.state == 'done' and q.dead + q.trash == 0 then redis.call('UNLINK', q.stream) end
end

local function room_flush()
  if #ended > 0 then redis.call('HDEL', edited, unpack(ended)) end
  ended = {}
  for _, q in pairs(touched) do
    write_stream(q)
    if q.results then
      for key, rows in pairs(q.results) do redis.call('HSET', key, unpack(rows)) end
    end
    hold(q)
    settle_state(q)
    sync(q)
    -- In a cancelled request what would wait counts as trash: brought back by undo, not by workers.
    count(q.had.state == 'cancelled' and 'cancelled' or 'waiting', -(q.had.waiting or 0))
    count(q.state == 'cancelled' and 'cancelled' or 'waiting', q.waiting)
    write_record(q)
  end
  touched = {}
end

-- Remove finished requests past their time, some thousands of sub-requests a call; one with dead
-- letters stays, and one with a stream whose record is spoilt or gone. What was cancelled while it
-- waited may have records. `moves`: whether some move between two queues is unfinished, which may be
-- what a request waits for.
local function room_retire(_, moves)
  local went = 0
  for _, rid in ipairs(redis.call('ZRANGE', retire, '-inf', now, 'BYSCORE', 'LIMIT', 0, 50)) do
    local readable, q = pcall(request, rid)
    local live = readable and q and (q.state == 'open' or q.state == 'sealed')
    local astray = readable and not q and redis.call('EXISTS', s_ .. rid) == 1
    if not readable or astray or live and moves then
      redis.call('ZADD', retire, now + 3600000, rid) -- it holds up no other
    elseif live then
      q.moving = 0
      redis.call('ZREM', retire, rid)
      touch(q)
    elseif q and (q.dead > 0 or q.trash > 0 or q.pending + q.delayed > 0) then
      redis.call('ZADD', retire, now + 3600000, rid)
    else
      local cancelled = q and q.state == 'cancelled'
      local last = q and math.floor(q.total / 1000) or 0
      local piece = tonumber(redis.call('HGET', r_ .. rid, 'swept')) or 0
      local upto = math.min(piece + (cancelled and 0 or 49), last)
      for i = piece, upto do redis.call('UNLINK', res_ .. rid .. ':' .. i) end
      if cancelled then
        local ids = {}
        for k = 1, 1000 do ids[k] = rid .. '/' .. (piece * 1000 + k - 1) end
        redis.call('HDEL', meta, unpack(ids))
        redis.call('HDEL', err, unpack(ids))
        redis.call('HDEL', edited, unpack(ids))
      end
      if upto < last then
        redis.call('HSET', r_ .. rid, 'swept', upto + 1)
      else
        if cancelled then count('cancelled', -q.waiting) end
        redis.call('UNLINK', s_ .. rid, again_ .. rid, later_ .. rid, r_ .. rid)
        redis.call('ZREM', fin, rid)
        redis.call('ZREM', retire, rid)
      end
      went = went + 1
    end
  end
  return went
end
