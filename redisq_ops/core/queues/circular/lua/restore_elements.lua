-- Put lost elements back. Another program may take from the list or delete it; the hash of payloads is
-- authoritative. Once the list is empty and shouldn't be, its ids are pushed again, a few per call. An
-- id that is pushed meanwhile may run once more. `restore_elements(max)` returns how many it pushed.
-- KEYS: stat queue lease delay spent dead trash transit body meta
-- USES: state elements wake_workers counters
local function restore_elements(max)
  local cursor = redis.call('HGET', stat, 'mending')
  if not cursor then
    local size, held = redis.call('LLEN', queue), redis.call('ZCARD', lease) + redis.call('ZCARD', delay)
    if size > 0 and (not elements_rotate or size >= held) then return 0 end
    redis.call('UNLINK', spent) -- the marked elements are gone
    redis.call('HDEL', stat, 'spent', 'sentinel', 'lap', 'barren', 'vain')
    local apart = redis.call('ZCARD', dead) + redis.call('ZCARD', trash) + redis.call('HLEN', transit)
    if not elements_rotate then apart = apart + held end
    if redis.call('HLEN', body) <= apart then return 0 end
  end
  local cursor_at = counters_cursor('mending')
  local page, lost = redis.call('HSCAN', body, cursor_at, 'COUNT', math.min(max, 50)), {}
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    if elements_reside(state_of(id, redis.call('HGET', meta, id))) then lost[#lost + 1] = id end
  end
  for _, id in ipairs(lost) do redis.call('LPUSH', queue, id) end
  if elements_wake then wake_workers(#lost) end
  if page[1] == '0' then
    redis.call('HDEL', stat, 'mending')
  else
    redis.call('HSET', stat, 'mending', page[1])
  end
  return #lost
end
