-- Requests. The record r_<rid> is authoritative; a token in the list of a priority is a hint that there
-- may be work, and a published message is a hint too.
-- A sub-request is the stream entry <n>-0, and its id is <rid>/<n>. `read` is the highest n ever
-- delivered, `again` the number of entries in again_<rid> (see stream.lua).
-- KEYS: edited
-- IMPLEMENTS: storage_moved storage_done storage_flush
-- USES: list_append request counters in_transit_count request_completion request_edits request_results
-- USES: request_tokens stream transfer_names
local function storage_moved(id, from, to, r, value)
  local q, entry = request_locate(id)
  if not q then return false end -- its record is gone: no reason to stop
  request_touch(q)
  q[from] = q[from] - 1
  local into = to == 'gone' and 'purged' or to
  q[into] = q[into] + 1
  if to == 'gone' then -- distinguishes it from a done one
    request_results_keep(q, '-' .. entry, '', entry)
  end
  if to == 'trash' and from ~= 'dead' and (r.op or ''):find(TRANSFER_NAMES_MOVED) then
    q.moving = q.moving + 1
  end
  -- An entry that was never delivered is known by the reading position alone.
  if (from == 'waiting' or from == 'trash') and request_unread(q, entry) then
    if to == 'gone' then q.dels[#q.dels + 1] = entry end
    return request_known >= REQUEST_MOST and 'full' or nil
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
      if request_edits_any() then request_edits_ended[#request_edits_ended + 1] = id end
    end
    if value then
      if q.bytes + #value > DEFAULT.max_results then
        q.dropped = q.dropped + 1
      else
        q.bytes = q.bytes + #value
        -- mutant results lost: value => ''
        request_results_keep(q, entry, value, entry)
      end
    end
  end
  return request_known >= REQUEST_MOST and 'full' or nil
end

-- The most common change, and mostly all entries are of one request.
local function storage_done(ids)
  local q, list, n
  for k = 1, #ids do
    local its, entry = request_locate(ids[k])
    if its and its ~= q then -- nil: its record is gone
      request_touch(its)
      q, list, n = its, its.ends, #its.ends
    end
    if its then
      n = n + 1
      list[n] = entry
      q.pending, q.done = q.pending - 1, q.done + 1
    end
  end
  if request_edits_any() then list_append(request_edits_ended, ids) end
end

local function storage_flush()
  -- mutant edits outlive their entries: redis.call('HDEL', edited, unpack(request_edits_ended)) =>
  if #request_edits_ended > 0 then redis.call('HDEL', edited, unpack(request_edits_ended)) end
  request_edits_ended = {}
  for _, q in pairs(request_touched) do
    stream_write(q)
    if q.results then
      for key, rows in pairs(q.results) do redis.call('HSET', key, unpack(rows)) end
    end
    in_transit_count(q)
    request_completion(q)
    -- mutant tokens not given back
    request_tokens_sync(q)
    -- Waiting entries of a cancelled request count as cancelled: no worker takes them.
    counters_add(q.had.state == 'cancelled' and 'cancelled' or 'waiting', -(q.had.waiting or 0))
    counters_add(q.state == 'cancelled' and 'cancelled' or 'waiting', q.waiting)
    request_write(q)
  end
  request_completion_resume()
  request_touched = {}
end
