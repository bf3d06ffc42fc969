-- The keys of the requests that a change touches: their streams, what is to run again, and the lists
-- their tokens go to.
-- USES: storage type_check
local grouped = {}
local function must_be_grouped(stream)
  if grouped[stream] then return end
  local said = redis.pcall('XPENDING', stream, 'g', '-', '+', 1)
  if said.err then error({err = 'MISFIT key ' .. stream .. ' is no stream with a consumer group g'}) end
  grouped[stream] = true
end

local function room_ready()
  for _, q in pairs(touched) do
    must_be(q.stream, 'stream')
    if lacking(q) > 0 then
      must_be(p_ .. q.priority, 'list')
      must_be(prios, 'zset')
    end
    if q.state == 'cancelled' or q.had.state == 'cancelled' then count('cancelled', 0) end
    local live = q.waiting + q.pending + q.delayed + q.moving
    if live == 0 or q.state == 'done' or q.moving ~= (q.had.moving or 0) then -- it ends, or begins again
      for _, zset in ipairs({open, fin, retire}) do must_be(zset, 'zset') end
    end
    if next(q.claims) then must_be_grouped(q.stream) end
    if q.results then
      for key in pairs(q.results) do must_be(key, 'hash') end
    end
    if q.went.waiting[1] or q.come.waiting[1] then must_be(again_ .. q.rid, 'zset') end
    if q.went.delayed[1] or q.come.delayed[1] then must_be(later_ .. q.rid, 'zset') end
  end
end

local function room_read()
  if #ended > 0 then must_be(edited, 'hash') end
end

-- Of one that comes from another queue, to a request that may be new: its list, and a stream that ends
-- where its record says.
local met = {}
local function room_fits(_, own)
  local list, key = p_ .. own:match('^%d+'), s_ .. own:match('%S+$')
  must_be(list, 'list')
  if met[key] then return end
  met[key] = true
  must_be(key, 'stream')
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  local q = request(own:match('%S+$'))
  if last and tonumber(last[1]:match('^%d+')) > (q and q.total or 0)
    or not q and redis.call('EXISTS', key) == 1 then
    error({err = 'MISFIT key ' .. key .. ' has entries that no request knows of'})
  end
end
