-- Where a sub-request is from now on that comes from another queue: one number further in the request
-- of its move, `into`, which is as its own was. What was said of it has where that is, and the
-- request's first generation: when all was done with and forgotten, what comes then begins at 1 again.
-- USES: begin_request content
local LIKE = '^(%d+) (%d+) (%d) (%a+) (%S+)$' -- its own request's priority, limit, pause, state; into

-- By a cancelled request on either side, and by one of that name that isn't a move's.
local function barred(own, state)
  local _, _, _, was, into = own:match(LIKE)
  local q = request(into)
  return was == 'cancelled' and state ~= 'dead'
    or q and (q.state == 'cancelled' or q.state == 'open' or q.read ~= q.total)
end

local function berth(id, payload, own)
  local priority, limit, paused, _, into = own:match(LIKE)
  local q = request(into)
  if not q then
    q = begun(into, 'sealed', priority, limit)
    q.paused = tonumber(paused)
  elseif redis.call('EXISTS', q.stream) == 0 then -- all that came before is done
    redis.call('XGROUP', 'CREATE', q.stream, 'g', '0', 'MKSTREAM')
  end
  q.total, q.dead = q.total + 1, q.dead + 1 -- from where it is moved on to its state
  q.read = q.total
  redis.call('XADD', q.stream, q.total .. '-0', 'r', payload)
  redis.call('XGROUP', 'SETID', q.stream, 'g', q.total .. '-0')
  touch(q)
  local at = into .. '/' .. q.total
  return at, 'ok ' .. at .. ' ' .. q.born
end

local function berthed(id, mark)
  local word, at, born = (mark or ''):match('^(%S+) (%S+) (%d+)$')
  if not word then return id, mark, '' end
  local q = located(at)
  local same = q and q.born == tonumber(born) and (word ~= 'ok' or q.state ~= 'cancelled')
  return at, same and word, ' ' .. at .. ' ' .. born
end
