-- Renew leases. Sending it twice is harmless by nature.
-- KEYS: lease
-- ARGV: lease_ms
-- REST: id receipt
-- USES: record
-- FLAGS: allow-oom
-- Returns the new deadline (ms), then one word per row: ok | stale.
local ids = {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
local deadline = now + tonumber(lease_ms)
local said, put = {tostring(deadline)}, {}
for k, r in ipairs(records(ids)) do
  local ok = r.receipt ~= '-' and r.receipt == ARGV[first + (k - 1) * width + 1]
  said[#said + 1] = ok and 'ok' or 'stale'
  if ok then
    put[#put + 1] = deadline
    put[#put + 1] = ids[k]
  end
end
if #put > 0 then redis.call('ZADD', lease, 'XX', unpack(put)) end
return said
