-- The keys that a change writes: the states' sorted sets it moves entries between, what every change
-- writes (but for the records, which it has read), and of the requests it touches their streams, and the
-- lists their tokens go to. To ask for all that there are takes as long as to move thirty entries.
-- USES: fit noted room
local fitting, met = {}, {}

local function fits(key, kind)
  if fitting[key] then return end
  local wrong = misfit(key, kind)
  if wrong then error(wrong) end
  fitting[key] = true
end

local function room_ready()
  for key in pairs(drops) do fits(key, 'zset') end
  for key in pairs(adds) do fits(key, 'zset') end
  for key, kind in pairs({[err] = 'hash', [stat] = 'hash', [hist] = 'stream', [wake] = 'list',
    [prios] = 'zset', [edited] = 'hash'}) do fits(key, kind) end
  for _, q in pairs(touched) do
    fits(q.stream, 'stream')
    fits(p_ .. q.priority, 'list')
    if q.went.waiting[1] or q.come.waiting[1] then fits(again_ .. q.rid, 'zset') end
    if q.went.delayed[1] or q.come.delayed[1] then fits(later_ .. q.rid, 'zset') end
    if q.state == 'done' or q.waiting + q.pending + q.delayed == 0 or q.moving ~= q.had.moving then
      for _, key in ipairs({open, fin, retire}) do fits(key, 'zset') end
    end
  end
end

-- Of one that comes from another queue, to a request that may be new: its list, and a stream that ends
-- where its record says.
local function room_fits(_, own)
  local list, key = p_ .. own:match('^%d+'), s_ .. own:match('%S+$')
  fits(list, 'list')
  if met[key] then return end
  met[key] = true
  fits(key, 'stream')
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  local q = request(own:match('%S+$'))
  if last and tonumber(last[1]:match('^%d+')) > (q and q.total or 0)
    or not q and redis.call('EXISTS', key) == 1 then
    error({err = 'MISFIT key ' .. key .. ' has entries that no request knows of'})
  end
end
