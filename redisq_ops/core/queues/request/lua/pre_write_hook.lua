-- The keys that a later step of `front` writes and hasn't read; `room_ready` has those of its requests.
-- KEYS: prios open fin retire
-- USES: type_check_flush storage
local function fit_written()
  fit_flushed()
  must_be(prios, 'zset')
  for _, q in pairs(touched) do
    if q.state == 'done' or q.waiting + q.pending + q.delayed == 0 then -- it may end, or begin again
      for _, zset in ipairs({open, fin, retire}) do must_be(zset, 'zset') end
    end
  end
end
