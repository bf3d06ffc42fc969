-- Create a request, add sub-requests to it, seal it: any of these in one step. A chunk is appended only
-- after the content it was cut from, which a chain of digests proves. So a submission that is sent
-- again, resumed elsewhere or sent by two processes never duplicates or mixes anything. Kept with a new
-- request if not empty: `trace`, the producer's trace context, and `op`, the import that creates it.
-- `follows`: a request of this queue that has to be done first: this one is paused until then.
-- `rehearse`: how many sub-requests would be added; then nothing is written, and the answer is that of
-- the real call.
-- KEYS: r_ p_ prios open fin retire
-- ARGV: rid priority limit start before after seal trace op rehearse follows
-- REST: payload
-- USES: transitions number_words begin_request config counters history request type_check registered
-- USES: max_waiting request_completion
-- TYPES: once
-- RARELY: cancelled
-- Returns: ok | same (already there) | trash (was there, but sub-requests of it were purged or moved) |
-- past (there, and more) | exists (another submission), then total, state, and for `trash` how many.
registered_check()
local q = request_get(rid)
local rows = rehearse == '' and #ARGV - first + 1 or tonumber(rehearse)
local last = tonumber(start) + rows - 1
local known = q and redis.call('HGET', r_ .. rid, 'digest')
local function answer(word) return {word, tostring(q.total), q.state} end

if config.closed and not q then
  return {err = 'CLOSED the queue is draining and takes no new requests'}
end
if not q and config.retired then
  return {err = 'CLOSED this shard of the queue is given up and takes no new requests'}
end
if q then
  local sealed = q.state ~= 'open'
  if q.state == 'cancelled' then return answer('exists') end
  -- mutant any content of that length is the same: known == after and =>
  if q.total == last and known == after and (sealed or seal ~= '1') then
    local gone = q.trash + q.purged
    -- mutant what was purged is the same: gone == 0 => true
    if gone == 0 then return answer('same') end
    return {'trash', tostring(q.total), q.state, tostring(gone)}
  end
  -- mutant a shorter submission passes for a part: and seal ~= '1' =>
  if q.total > last and rows > 0 and seal ~= '1' then return answer('past') end
  -- mutant a chunk put behind any content: or known ~= before =>
  if sealed or q.total ~= tonumber(start) - 1 or known ~= before then return answer('exists') end
elseif tonumber(start) ~= 1 then
  return {err = 'NOTFOUND no such request to add to: ' .. rid}
end
local leader, follower
if not q and follows ~= '' then
  leader = request_get(follows)
  if not leader then return {err = 'NOTFOUND no such request to follow: ' .. follows} end
  if leader.state == 'cancelled' then
    return {err = 'CLOSED the request to follow was cancelled: ' .. follows}
  end
  local other = redis.call('HGET', r_ .. follows, 'then')
  follower = other and request_get(other)
  if follower and follower.state ~= 'cancelled' then
    return {err = 'EXISTS another request follows ' .. follows}
  end
end
if config.max_waiting > 0 and rows > 0 then
  local full = max_waiting_refusal(counters_known.waiting or 0, rows)
  if full then return full end
end
if rehearse ~= '' then return {'ok', tostring(last), q and q.state or 'open'} end
type_check_key(p_ .. (q and q.priority or priority), 'list')
type_check_key(prios, 'zset')
if not q or rows == 0 then type_check_key(open, 'zset') end
if rows == 0 then -- sealed without more entries, it may be done
  type_check_key(fin, 'zset')
  type_check_key(retire, 'zset')
  if q and q.waiting + q.pending + q.delayed + q.moving == 0 then request_completion_prepare(q) end
end
if q and #redis.call('XRANGE', q.stream, string.format('(%.0f-0', q.total), '+', 'COUNT', 1) > 0 then
  return {err = 'MISFIT key ' .. q.stream .. ' has entries that no request knows of'}
end
if not q then
  q = begin_request(rid, 'open', priority, limit)
  if trace ~= '' then redis.call('HSET', r_ .. rid, 'trace', trace) end
  if op ~= '' then redis.call('HSET', r_ .. rid, 'op', op) end
  if leader and leader.state ~= 'done' then
    redis.call('HSET', r_ .. follows, 'then', rid)
    redis.call('HSET', r_ .. rid, 'follows', follows)
    q.paused = 1
  end
end
type_check_passed[q.stream] = true
local entries, call, stream = number_words(q.total, rows, '-0'), redis.call, q.stream
for i = 1, rows do call('XADD', stream, entries[i], 'r', ARGV[first + i - 1]) end
q.total, q.waiting = q.total + rows, q.waiting + rows
redis.call('HSET', r_ .. rid, 'digest', after, 'added', now_text)
if seal == '1' then q.state = 'sealed' end
history_by = rid
if rows > 0 then
  history_note('submitted', rid .. '|' .. start .. '|' .. last)
  history_tally('i', rows)
end
request_touch(q)
transitions_flush()
return answer('ok')
