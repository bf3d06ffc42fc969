-- Remove finished requests after `keep_ms`, a few thousand sub-requests a call. A request with dead
-- letters stays, and so does a stream whose record is corrupt or gone. Sub-requests that were cancelled
-- while they waited may have records. `moves`: a live request may be waiting for an unfinished move.
-- KEYS: retire s_ r_ res_ meta err edited again_ later_ fin
-- IMPLEMENTS: storage_retire
-- USES: counters request
local function storage_retire(_, moves)
  local went, swept = 0, 0
  for _, rid in ipairs(redis.call('ZRANGE', retire, '-inf', now, 'BYSCORE', 'LIMIT', 0, 50)) do
    if swept >= 5000 then break end
    local readable, q = pcall(request_get, rid)
    local live = readable and q and (q.state == 'open' or q.state == 'sealed')
    local astray = readable and not q and redis.call('EXISTS', s_ .. rid) == 1
    if not readable or astray or live and moves then
      redis.call('ZADD', retire, now + 3600000, rid) -- it must not delay the others
    elseif live then
      q.moving = 0
      redis.call('ZREM', retire, rid)
      request_touch(q)
    -- mutant requests retired with dead letters: dead > 0 or q.trash => trash
    elseif q and (q.dead > 0 or q.trash > 0 or q.pending + q.delayed > 0) then
      redis.call('ZADD', retire, now + 3600000, rid)
    else
      local cancelled = q and q.state == 'cancelled'
      local last = q and math.floor(q.total / 1000) or 0
      local piece = tonumber(redis.call('HGET', r_ .. rid, 'swept')) or 0
      local upto = math.min(piece + (cancelled and 0 or 49), last)
      for i = piece, upto do redis.call('UNLINK', res_ .. rid .. ':' .. i) end
      if cancelled then
        local ids, from = {}, piece * 1000
        for k = from, math.min(q.total, from + 999) do ids[#ids + 1] = rid .. '/' .. k end
        swept = swept + #ids
        for _, key in ipairs({meta, err, edited}) do redis.call('HDEL', key, unpack(ids)) end
      end
      if upto < last then
        redis.call('HSET', r_ .. rid, 'swept', upto + 1)
      else
        if cancelled then counters_add('cancelled', -q.waiting) end
        redis.call('UNLINK', s_ .. rid, again_ .. rid, later_ .. rid, r_ .. rid)
        redis.call('ZREM', fin, rid)
        redis.call('ZREM', retire, rid)
      end
      went = went + 1
    end
  end
  return went
end
