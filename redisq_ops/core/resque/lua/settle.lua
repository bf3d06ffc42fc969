-- End deliveries. What becomes of a failed job is the caller's to say, in the owner's format: `text`
-- is its record up to the value of its last field, a time (`unit`: s, ms or date) that is the
-- server's to give; with no unit it is the whole. Only the holder of a ticket that is there is heard.
-- KEYS: t_retry
-- ARGV: caller seq consumer side queue failed
-- REST: id ticket outcome text unit delay
-- USES: guard held
-- FLAGS: allow-oom
-- Returns one word per row: done | retry | dead | released | stale.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = consumer
said = {}
local all, settled, ended, back, acked, bad = {}, {}, {}, {}, 0, 0
for i = first, #ARGV, width do all[#all + 1] = ARGV[i + 1] end
local payloads = redis.call('HMGET', body, unpack(all))
local known = redis.call('HLEN', lost) > 0
for k, ticket in ipairs(all) do
  local at = first + (k - 1) * width
  local id, outcome, text, unit = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local payload = payloads[k]
  if not payload or settled[ticket] then
    said[k] = 'stale'
  else
    settled[ticket] = true
    ended[#ended + 1] = ticket
    if outcome == 'release' then
      back[#back + 1] = payload
      said[k] = 'released'
    else
      if known then redis.call('HDEL', lost, redis.sha1hex(payload)) end
      if unit ~= '' then text = text .. stamp(unit) .. '}' end
      if outcome == 'ack' then
        acked = acked + 1
        said[k] = 'done'
        if every then note('done', id) end
      elseif outcome == 'retry' then
        into_set(t_retry, seconds(now + tonumber(ARGV[at + 5])), text)
        bad = bad + 1
        said[k] = 'retry'
        note('failed', id .. '|' .. consumer)
      else -- rejected, failed for the last time, or `discarded`: its own record says not to keep it
        if outcome ~= 'discarded' then
          if sidekiq then into_set(t_dead, seconds(now), text) else to_failed(queue, text) end
        end
        bad = bad + 1
        said[k] = 'dead'
        note('dead', id .. '|' .. outcome)
      end
    end
  end
end
let_go(ended)
for i = #back, 1, -1 do to_front(queue, back[i]) end
if #back > 0 then wake_workers(#back) end
count('done', acked)
count_theirs(acked + bad, bad)
write_counters()
write_history()
return remember(said)
