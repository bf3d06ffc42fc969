-- Begin a request, add sub-requests to it, seal it: any of these in one step. The chain of digests
-- is the guard: a chunk is appended only behind the content it was cut from, so a submission that
-- is sent again, resumed elsewhere or raced by its twin never doubles or mixes anything.
-- ARGV: rid priority limit start before after seal
-- REST: payload
-- USES: transitions number_words begin_request
-- Returns: ok | same (already there) | past (there, and more) | exists (another submission),
-- then total, state.
local q = request(rid)
local rows = #ARGV - first + 1
local last = tonumber(start) + rows - 1
local known = q and redis.call('HGET', r_ .. rid, 'digest')
local function answer(word) return {word, tostring(q.total), q.state} end

if conf.closed and not q then
  return {err = 'CLOSED the queue is draining and takes no new requests'}
end
if not q and conf.retired then
  return {err = 'CLOSED this shard of the queue is given up and takes no new requests'}
end
if q then
  local sealed = q.state ~= 'open'
  if q.state == 'cancelled' then return answer('exists') end
  if q.total == last and known == after and (sealed or seal ~= '1') then return answer('same') end
  if q.total > last and rows > 0 and seal ~= '1' then return answer('past') end
  if sealed or q.total ~= tonumber(start) - 1 or known ~= before then return answer('exists') end
elseif tonumber(start) ~= 1 then
  return {err = 'NOTFOUND no such request to add to: ' .. rid}
end
if conf.max_waiting > 0 and rows > 0 then
  local there = counted.waiting or 0
  if there + rows > conf.max_waiting then
    return {err = 'FULL ' .. there .. ' entries wait and max_waiting is ' .. conf.max_waiting}
  end
end
must_be(p_ .. (q and q.priority or priority), 'list')
must_be(prios, 'zset')
if not q or rows == 0 then must_be(open, 'zset') end
if rows == 0 then -- it may be done at once
  must_be(fin, 'zset')
  must_be(retire, 'zset')
end
if q and #redis.call('XRANGE', q.stream, string.format('(%.0f-0', q.total), '+', 'COUNT', 1) > 0 then
  return {err = 'MISFIT key ' .. q.stream .. ' has entries that no request knows of'}
end
if not q then
  q = begun(rid, 'open', priority, limit)
end
fitting[q.stream] = true
local entries, call, stream = numbered(q.total, rows, '-0'), redis.call, q.stream
for i = 1, rows do call('XADD', stream, entries[i], 'r', ARGV[first + i - 1]) end
q.total, q.waiting = q.total + rows, q.waiting + rows
redis.call('HSET', r_ .. rid, 'digest', after, 'added', now_text)
if seal == '1' then q.state = 'sealed' end
by = rid
if rows > 0 then
  note('submitted', rid .. '|' .. start .. '|' .. last)
  tally('i', rows)
end
touch(q)
flush()
return answer('ok')
