-- Sub-requests that move to or from another queue. One that comes in gets the next number in the
-- request of its move, whose priority, limit and pause are those of its own request. So no id is ever
-- taken. The result of a step has the new id and the request's first generation: if the request was
-- removed meanwhile, the numbers begin at 1 again.
-- KEYS: undo_ op_ r_
-- IMPLEMENTS: storage_following storage_here storage_waiting_count storage_refuses storage_place
-- IMPLEMENTS: storage_placed storage_step_ended
-- USES: begin_request counters request storage_check
local function storage_following(ids)
  local found = {}
  for k, id in ipairs(ids) do
    local q = request_locate(id)
    local paused = q and q.paused == 1 and redis.call('HEXISTS', r_ .. q.rid, 'follows') + 1
    found[k] = q and string.format('%d %d %d %s', q.priority, q.limit, paused or 0, q.state)
  end
  return found
end

local function storage_here(id)
  return false
end

local function storage_waiting_count()
  return counters_known.waiting or 0
end

-- Priority, limit, pause (2: it waits for the end of another) and state of the request it comes from,
-- and the request it goes into.
local LIKE = '^(%d+) (%d+) (%d) (%a+) (%S+)$'

-- Refuse an entry if its request is cancelled in either queue, or waits for one that stays behind, or no
-- move created the one here.
local function storage_refuses(own, state)
  local _, _, paused, was, into = own:match(LIKE)
  local q = request_get(into)
  return paused == '2' or was == 'cancelled' and state ~= 'dead'
    or q and (q.state == 'cancelled' or q.state == 'open' or q.read ~= q.total)
end

local function storage_place(id, payload, own)
  local priority, limit, paused, _, into = own:match(LIKE)
  local q = request_get(into)
  if not q then
    q = begin_request(into, 'sealed', priority, limit)
    q.paused = tonumber(paused)
  elseif redis.call('EXISTS', q.stream) == 0 then -- everything that came before is done
    redis.call('XGROUP', 'CREATE', q.stream, 'g', '0', 'MKSTREAM')
  end
  q.total, q.dead = q.total + 1, q.dead + 1 -- `transfer_accept` moves it on to its state
  q.read = q.total
  redis.call('XADD', q.stream, q.total .. '-0', 'r', payload)
  redis.call('XGROUP', 'SETID', q.stream, 'g', q.total .. '-0')
  request_touch(q)
  local at = into .. '/' .. q.total
  return at, 'ok ' .. at .. ' ' .. q.born
end

local function storage_placed(id, mark)
  local word, at, born = (mark or ''):match('^(%S+) (%S+) (%d+)$')
  if not word then return id, mark, '' end
  local q = request_locate(at)
  local same = q and q.born == tonumber(born) and (word ~= 'ok' or q.state ~= 'cancelled')
  return at, same and word, ' ' .. at .. ' ' .. born
end

-- The requests of a step's entries aren't held up by it any more. Steps end in their order, so `freed`
-- has the number of the last one that has ended.
local function storage_step_ended(op, step, state)
  local rows = state ~= 'dead' and redis.call('LRANGE', undo_ .. op .. ':' .. step, 0, 499) or {}
  local upto = #rows > 0 and tonumber(redis.call('HGET', op_ .. op, 'freed') or '0')
  if #rows == 0 or tonumber(step) <= upto then return end
  for _, row in ipairs(rows) do
    local q = request_locate(row:match('^%S+'))
    if q and q.moving > 0 then
      q.moving = q.moving - 1
      request_touch(q)
    end
  end
  storage_check()
  redis.call('HSET', op_ .. op, 'freed', step)
end
