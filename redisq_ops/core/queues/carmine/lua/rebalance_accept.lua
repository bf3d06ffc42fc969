-- Put in messages that come from another shard, each mark once as long as `seen` keeps it (keep_ms). A
-- done message comes with the time until which equal ones are refused; all others come as they were.
-- KEYS: finished seen body messages meta err backoffs nattempts requeued next
-- ARGV: layout
-- REST: id mark state at record payload error following
-- USES: transitions circle config record state_zsets storage_here wake_workers
-- Returns one word per row: ok | same (that mark was here) | exists (that id is here, try later) |
-- elsewhere (the caller's layout of the shards is out of date).
local reply, coming, woken = {}, {}, 0
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
for i = first, #ARGV, width do
  local id, mark, state, at, record, payload, failure, following = unpack(ARGV, i, i + width - 1)
  local word, came = 'ok', redis.call('ZSCORE', seen, mark)
  if newer then
    word = 'elsewhere'
  elseif came and tonumber(came) > now - config.keep_ms then
    word = 'same'
  elseif storage_here(id) then
    word = 'exists'
  else
    local hidden = state == 'dead' or state == 'trash'
    if hidden then transitions_backdated = true end
    redis.call('ZADD', seen, now, mark)
    redis.call('HSET', hidden and body or messages, id, payload)
    if record ~= '' then redis.call('HSET', meta, id, record) end
    if failure ~= '' then redis.call('HSET', err, id, failure) end
    if following ~= '' then redis.call('HSET', next, id, following:sub(2)) end
    if state_zsets[state] then redis.call('ZADD', state_zsets[state], at, id) end
    if not hidden then
      coming[#coming + 1] = id
      if tonumber(at) > now then redis.call('HSET', backoffs, id, at) end
    end
    if state == 'done' then
      redis.call('SADD', finished, id)
    elseif not hidden then
      local r = record_unpack(record ~= '' and record)
      if r.failures + r.lost > 0 then redis.call('HSET', nattempts, id, r.failures + r.lost) end
      if following ~= '' then redis.call('SADD', requeued, id) end
      woken = woken + 1
    end
  end
  reply[#reply + 1] = word
end
if #coming > 0 then circle_add(coming) end
if woken > 0 then wake_workers(woken) end
transitions_flush()
return reply
