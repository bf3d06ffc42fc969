-- Put in ids that come from another shard, each mark once as long as `seen` keeps it (keep_ms). An id
-- that is here too, because a foreign producer pushed it, counts as pushed once more if it had still to
-- run.
-- KEYS: again seen body meta err
-- ARGV: layout
-- REST: id mark state at record payload error following
-- USES: transitions config elements history list_changes record state state_zsets
-- Returns one word per row: ok | same (that mark was here) | exists (the id is here, try later) |
-- elsewhere (the caller's layout of the shards is out of date).
local reply = {}
history_by = 'transport'
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local function owe(id, number, payload)
  if elements_each then
    state_run_again(id, number)
  else
    redis.call('HSET', again, id, payload)
  end
end
for i = first, #ARGV, width do
  local id, mark, state, at, record, payload, failure, following = unpack(ARGV, i, i + width - 1)
  local word, came = 'ok', redis.call('ZSCORE', seen, mark)
  local row = following ~= '' and following:sub(2)
  local here = redis.call('HEXISTS', body, id) == 1 and state_of(id, redis.call('HGET', meta, id))
  if newer then
    word = 'elsewhere'
  elseif came and tonumber(came) > now - config.keep_ms then
    word = 'same'
  elseif (here == 'dead' or here == 'trash') and (state == 'dead' or state == 'trash') then
    -- the id has ended here too: one letter is kept, as for two pushes of the same bytes
  elseif here and (here == 'transit' or state == 'dead' or state == 'trash') then
    word = 'exists'
  elseif here then
    if here == 'dead' or here == 'trash' then
      transitions_move(id, here, 'waiting', now, record_unpack(nil))
      redis.call('HSET', body, id, payload)
      if row then owe(id, row, row) end
    elseif elements_each or here == 'pending' then
      owe(id, 1 + (elements_each and row or 0), row or payload)
    elseif (row or payload) ~= '' then
      redis.call('HSET', body, id, row or payload)
    end
  else
    redis.call('HSET', body, id, payload)
    if record ~= '' then redis.call('HSET', meta, id, record) end
    if state == 'dead' or state == 'trash' then transitions_backdated = true end
    if failure ~= '' then redis.call('HSET', err, id, failure) end
    if row then redis.call('HSET', again, id, row) end
    if state_zsets[state] then redis.call('ZADD', state_zsets[state], at, id) end
    if elements_reside(state) then list_changes_enter(id) end
    if state == 'waiting' then list_changes_woken = list_changes_woken + 1 end
  end
  if word == 'ok' then redis.call('ZADD', seen, now, mark) end
  reply[#reply + 1] = word
end
transitions_flush()
return reply
