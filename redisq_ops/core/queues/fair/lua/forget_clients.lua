-- Remove clients of a shard that is given up, a page of them: rules, turns, and lists in which nothing
-- waits any more, however long. Nothing is done while an entry is here, in whatever state.
-- KEYS: accounts clients ring packing resting body c_ f_
-- ARGV: layout max
-- USES: config
-- FLAGS: allow-oom
-- Returns how many clients were removed; 0: none is left, or the shard isn't given up.
if config.layout ~= layout or not config.retired
  or redis.call('EXISTS', body) == 1 then
  return 0
end
local names = redis.call('ZRANGE', clients, 0, max - 1)
if #names == 0 then return 0 end
local lists = {}
for i, name in ipairs(names) do lists[2 * i - 1], lists[2 * i] = c_ .. name, f_ .. name end
redis.call('UNLINK', unpack(lists))
redis.call('HDEL', accounts, unpack(names))
for _, key in ipairs({clients, ring, packing, resting}) do redis.call('ZREM', key, unpack(names)) end
return #names
