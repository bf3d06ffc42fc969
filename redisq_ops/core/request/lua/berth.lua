-- Where a sub-request is from now on that comes from another queue: one number further in the request
-- of its move, `into`, which is as its own was. What was said of it has where that is, and the
-- request's generation: after it was done with and forgotten, another one of its name has other numbers.
-- USES: begin content
local function barred(into)
  local q = request(into)
  return q and q.state == 'cancelled'
end

local function berth(id, into, payload, own)
  local q = request(into)
  if not q then
    local priority, limit, paused = own:match('^(%d+) (%d+) (%d)$')
    q = begun(into, 'sealed', priority, limit)
    q.paused = tonumber(paused)
    redis.call('HSET', r_ .. into, 'paused', paused)
  elseif redis.call('EXISTS', q.stream) == 0 then -- all that came before is done
    redis.call('XGROUP', 'CREATE', q.stream, 'g', '0', 'MKSTREAM')
  end
  q.total, q.dead = q.total + 1, q.dead + 1 -- from where it is moved on to its state
  q.read = q.total
  redis.call('XADD', q.stream, q.total .. '-0', 'r', payload)
  redis.call('XGROUP', 'SETID', q.stream, 'g', q.total .. '-0')
  touch(q)
  local at = into .. '/' .. q.total
  return at, 'ok ' .. at .. ' ' .. q.gen
end

local function berthed(id, mark)
  local word, at, gen = (mark or ''):match('^(%S+) (%S+) (%d+)$')
  if not word then return id, mark, '' end
  local q = request((split(at)))
  return at, q and q.gen == tonumber(gen) and word, ' ' .. at .. ' ' .. gen
end
