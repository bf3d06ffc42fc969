-- The keys of the requests that a change touches: their streams, and the lists their tokens go to.
-- USES: room fit
local fitting = {} -- lists that were looked at: most requests of a call have one priority

local function no_set(q, state, key)
  return (q.went[state][1] or q.come[state][1]) and misfit(key .. q.rid, 'zset')
end

local function room_ready()
  for _, q in pairs(touched) do
    local list = p_ .. q.priority
    local wrong = misfit(q.stream, 'stream') or no_set(q, 'waiting', again_)
      or no_set(q, 'delayed', later_) or not fitting[list] and misfit(list, 'list')
    if wrong then error(wrong) end
    fitting[list] = true
  end
end

-- Of one that comes from another queue, to a request that may be new: its list, and a stream that ends
-- where its record says.
local function room_fits(_, own)
  local list, key = p_ .. own:match('^%d+'), s_ .. own:match('%S+$')
  if fitting[list] and fitting[key] then return end
  local wrong = misfit(list, 'list') or misfit(key, 'stream')
  local last = not wrong and redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  local q = request(own:match('%S+$'))
  if not wrong and (last and tonumber(last[1]:match('^%d+')) > (q and q.total or 0)
    or not q and redis.call('EXISTS', key) == 1) then
    wrong = {err = 'MISFIT key ' .. key .. ' has entries that no request knows of'}
  end
  if wrong then error(wrong) end
  fitting[list], fitting[key] = true, true
end
