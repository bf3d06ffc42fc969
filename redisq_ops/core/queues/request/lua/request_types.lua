-- The types of keys that no header can name: the streams of the requests that a change touches, what is
-- to run again, and the lists their tokens go to.
-- The stream has its consumer group, so reads and claims can't fail.
-- KEYS: p_ prios open fin retire again_ later_ edited s_
-- IMPLEMENTS: storage_check storage_prepare storage_check_arrival
-- USES: type_check counters request request_completion request_edits request_tokens
local grouped = {}
local function request_types_group(stream)
  if grouped[stream] then return end
  local reply = redis.pcall('XPENDING', stream, 'g', '-', '+', 1)
  if reply.err then error({err = 'MISFIT key ' .. stream .. ' is no stream with a consumer group g'}) end
  grouped[stream] = true
end

local function storage_check()
  for _, q in pairs(request_touched) do
    type_check_key(q.stream, 'stream')
    if request_tokens_lacking(q) > 0 then
      type_check_key(p_ .. q.priority, 'list')
      type_check_key(prios, 'zset')
    end
    if q.state == 'cancelled' or q.had.state == 'cancelled' then counters_add('cancelled', 0) end
    local live = q.waiting + q.pending + q.delayed + q.moving
    if live == 0 and q.state == 'sealed' then request_completion_prepare(q) end
    if live == 0 or q.state == 'done' or q.moving ~= (q.had.moving or 0) then -- it ends or reopens
      for _, zset in ipairs({open, fin, retire}) do type_check_key(zset, 'zset') end
    end
    if next(q.claims) then request_types_group(q.stream) end
    if q.results then
      for key in pairs(q.results) do type_check_key(key, 'hash') end
    end
    if q.went.waiting[1] or q.come.waiting[1] then type_check_key(again_ .. q.rid, 'zset') end
    if q.went.delayed[1] or q.come.delayed[1] then type_check_key(later_ .. q.rid, 'zset') end
  end
end

local function storage_prepare()
  if #request_edits_ended > 0 then type_check_key(edited, 'hash') end
end

-- For an entry from another queue, whose request may be new: check the list of its priority, the
-- sets of what is to run again or later, and that the stream ends where the request's record says.
local met = {}
local function storage_check_arrival(_, own)
  local rid = own:match('%S+$')
  local key = s_ .. rid
  type_check_key(p_ .. own:match('^%d+'), 'list')
  if met[key] then return end
  met[key] = true
  type_check_key(key, 'stream')
  type_check_key(again_ .. rid, 'zset')
  type_check_key(later_ .. rid, 'zset')
  local q, exists = request_get(rid), redis.call('EXISTS', key) == 1
  if exists and q then request_types_group(key) end
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  if last and tonumber(last[1]:match('^%d+')) > (q and q.total or 0) or exists and not q then
    error({err = 'MISFIT key ' .. key .. ' has entries that no request knows of'})
  end
end
