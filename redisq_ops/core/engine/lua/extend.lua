-- Renew leases. Sending it twice does no harm.
-- KEYS: lease
-- ARGV: lease_ms
-- REST: id receipt
-- USES: record storage_extended
-- FLAGS: allow-oom
-- Returns the new deadline (ms), then one word per row: ok | stale.
local ids = {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
local deadline = now + tonumber(lease_ms)
local reply, put = {tostring(deadline)}, {}
for k, r in ipairs(record_read(ids)) do
  -- mutant extend without fence: r.receipt ~= '-' and r.receipt == => r.receipt ~= '-' and '' ~=
  -- mutant extend of what is over: r.receipt ~= '-' and r.receipt == => '' ~=
  local ok = r.receipt ~= '-' and r.receipt == ARGV[first + (k - 1) * width + 1]
  reply[#reply + 1] = ok and 'ok' or 'stale'
  if ok then put[#put + 1], put[#put + 2] = deadline, ids[k] end
end
if #put > 0 then
  redis.call('ZADD', lease, 'XX', unpack(put))
  storage_extended(put)
end
return reply
