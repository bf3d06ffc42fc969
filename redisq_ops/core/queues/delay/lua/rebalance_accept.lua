-- Put in entries that come from another shard or queue, each mark once as long as `seen` keeps it
-- (keep_ms). `new`: 1 for a hand-over; 0 within the queue, where nothing is new, so a draining or full
-- queue takes it.
-- KEYS: delay seen body meta err next
-- ARGV: new layout
-- REST: id mark state at record payload error following
-- USES: transitions config history state_zsets wake_workers
-- Returns one word per row: ok | same (that mark was here) | exists (that id is here) | elsewhere (the
-- caller's layout of the shards is out of date).
local rows, reply, fresh = (#ARGV - first + 1) / width, {}, 0
if new == '1' then
  if config.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
  local there = redis.call('ZCARD', delay)
  if config.max_waiting > 0 and there + rows > config.max_waiting then
    return {err = 'FULL ' .. there .. ' entries wait and max_waiting is ' .. config.max_waiting}
  end
end
history_by = 'transport'
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
for i = first, #ARGV, width do
  local id, mark, state, at, record, payload, failure, following = unpack(ARGV, i, i + width - 1)
  local word, came = 'ok', redis.call('ZSCORE', seen, mark)
  if newer then
    word = 'elsewhere'
  elseif came and tonumber(came) > now - config.keep_ms then
    word = 'same'
  elseif redis.call('HSETNX', body, id, payload) == 0 then
    word = 'exists'
  else
    redis.call('ZADD', seen, now, mark)
    redis.call('ZADD', state_zsets[state] or delay, at == '' and now or at, id)
    if record ~= '' then redis.call('HSET', meta, id, record) end
    if state == 'dead' or state == 'trash' then transitions_backdated = true end
    if failure ~= '' then redis.call('HSET', err, id, failure) end
    if following ~= '' then redis.call('HSET', next, id, following) end
    if history_all and new == '1' then
      history_note('submitted', id .. '|' .. (at == '' and now or at))
    end
    fresh = fresh + 1
  end
  reply[#reply + 1] = word
end
if new == '1' then history_tally('i', fresh) end
if fresh > 0 then wake_workers(fresh) end
transitions_flush()
return reply
