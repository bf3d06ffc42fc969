-- The keys of the requests that a change touches: their streams, and the lists their tokens go to.
-- USES: room fit
local fitting = {} -- lists that were looked at: most requests of a call have one priority

local function room_ready()
  for rid, q in pairs(touched) do
    local list = p_ .. q.priority
    local wrong = misfit(q.stream, 'stream') or not fitting[list] and misfit(list, 'list')
    if wrong then error(wrong) end
    fitting[list] = true
  end
end

-- Of one that comes from another queue, to a request that may be new, of that priority.
local function room_fits(_, into, own)
  local list = p_ .. own:match('^%d+')
  local wrong = not fitting[into] and misfit(s_ .. into, 'stream')
    or not fitting[list] and misfit(list, 'list')
  if wrong then error(wrong) end
  fitting[into], fitting[list] = true, true
end
