-- Where a request's sub-requests are, beside the sorted sets of states: entries of its stream, in the
-- group's pending list while they are delivered; those that are to run again in again_<rid>, n -> n, or
-- until they are due in later_<rid>.
-- `stream_begin(q)` prepares what a flush writes: numbers that leave (`went`) and enter (`come`, each
-- twice) by state, claims by consumer, entries to delete (`dels`) and acknowledged ones (`ends`).
-- `stream_write(q)` writes it.
-- KEYS: again_ later_
local function stream_begin(q)
  q.ends, q.dels, q.claims = {}, {}, {}
  q.went, q.come = {pending = {}, waiting = {}, delayed = {}}, {waiting = {n = 0}, delayed = {n = 0}}
end

local function written(key, went, come)
  local more = 0
  -- mutant what ran again stays in its set
  if #went > 0 then more = -redis.call('ZREM', key, unpack(went)) end
  if come.n > 0 then more = more + redis.call('ZADD', key, unpack(come)) end
  return more
end

local function stream_write(q)
  local stream, acks = q.stream, q.went.pending
  if #q.ends > 0 then
    redis.call('XACK', stream, 'g', unpack(q.ends))
    redis.call('XDEL', stream, unpack(q.ends))
  end
  if #acks > 0 then redis.call('XACK', stream, 'g', unpack(acks)) end
  -- mutant done entries stay in the stream: #q.dels > 0 => false
  if #q.dels > 0 then redis.call('XDEL', stream, unpack(q.dels)) end
  q.again = q.again + written(again_ .. q.rid, q.went.waiting, q.come.waiting)
  written(later_ .. q.rid, q.went.delayed, q.come.delayed)
  for owner, list in pairs(q.claims) do
    list[#list + 1], list[#list + 2] = 'FORCE', 'JUSTID' -- in the list: unpack must come last
    redis.call('XCLAIM', stream, 'g', owner, 0, unpack(list))
  end
end
