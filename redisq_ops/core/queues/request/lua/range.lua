-- Moving many sub-requests that go the same way, and the keys that a step of that writes.
-- KEYS: prios open fin retire
-- IMPLEMENTS: storage_move_range storage_check_range
-- USES: request storage_moved type_check type_check_flush

-- Consecutive entries mostly belong to one request. For a dead one that is replayed nothing else happens
-- than for the one before, so it takes a third of the time.
local sub, find = string.sub, string.find
local function storage_move_range(ids, from, to)
  local moved, n, stuck, stays, come = {}, 0, 0, {failures = 0, lost = 0, first = 0}, nil
  for k = 1, #ids do
    local id, result = ids[k], nil
    if come and id and find(id, request_ahead, 1, true) == 1 then
      local entry, at = sub(id, #request_ahead + 1), come.n
      come[at + 1], come[at + 2], come.n = entry, entry, at + 2
      request_last.dead, request_last[to] = request_last.dead - 1, request_last[to] + 1
    else
      result = id and storage_moved(id, from, to, stays)
      come = result ~= false and from == 'dead' and request_last.come[to]
    end
    if result == false then
      stuck = stuck + 1
    else
      n = n + 1
      moved[n] = id
      if result == 'full' then break end
    end
  end
  return moved, stuck
end

-- `storage_check` has checked the keys of each request.
local function storage_check_range()
  type_check_flush()
  type_check_key(prios, 'zset')
  for _, q in pairs(request_touched) do
    if q.state == 'done' or q.waiting + q.pending + q.delayed == 0 then -- it may end or reopen
      for _, zset in ipairs({open, fin, retire}) do type_check_key(zset, 'zset') end
    end
  end
end
