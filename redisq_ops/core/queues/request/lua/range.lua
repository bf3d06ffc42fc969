-- Moving many sub-requests that go the same way, and the keys that a step of that writes.
-- KEYS: prios open fin retire
-- IMPLEMENTS: storage_move_range storage_check_range
-- USES: record request storage_moved type_check type_check_flush

-- Consecutive entries mostly belong to one request. Those that become dead, or stop being dead, are
-- counted, and the request's record is written once at the end of their run: a third of the time.
local sub, find = string.sub, string.find
local function storage_move_range(ids, from, to, all)
  local moved, n, stuck, stays = {}, 0, 0, record_unpack(nil)
  local simple, full = (from == 'dead' or to == 'dead') and to ~= 'gone', nil
  local q, run, ahead, behind, come, went, unread = nil, 0, nil, nil, nil, nil, nil
  for k = 1, #ids do
    local id, result = ids[k], nil
    -- mutant a run that goes on into the next request: find(id, ahead, 1, true) == 1 => true
    if q and id and find(id, ahead, 1, true) == 1 then
      local entry = sub(id, behind)
      if come then
        local m = come.n
        come[m + 1], come[m + 2], come.n = entry, entry, m + 2
      elseif went and not (unread and request_unread(q, entry)) then
        went[#went + 1] = entry
      end
      run = run + 1
    else
      -- mutant a run that forgets what leaves the dead: - run =>
      if q then q[from], q[to], run = q[from] - run, q[to] + run, 0 end
      result = id and storage_moved(id, from, to, stays)
      q = simple and result ~= false and request_last
      if q then
        ahead, behind, unread = request_ahead, #request_ahead + 1, q.read < q.total
        come, went = q.come[to], q.went[from]
      end
      full = full or result == 'full'
    end
    if result == false then
      stuck = stuck + 1
    else
      n = n + 1
      moved[n] = id
      if full and not all then break end
    end
  end
  if q then q[from], q[to] = q[from] - run, q[to] + run end
  return moved, stuck, full
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
