-- Create, move or remove a consumer group, if it is where it was seen. `was` and `to`: ids of the last
-- entry delivered, empty where there is no group. `entries_read`: how many it has read then, -1:
-- unknown. `unused`: remove it only if it has no consumers.
-- KEYS: stream
-- ARGV: group was to entries_read unused
-- USES: positions
-- FLAGS: allow-oom
-- Returns: ok | same (it is at `to` already) | changed (it is elsewhere) | holds (it has pending entries
-- or consumers).
local found = positions_read()[group]
local last = found and found.last or ''
if last == to then return 'same' end
-- mutant moved since: last ~= was => false
if last ~= was then return 'changed' end
if to == '' then
  -- mutant removed with pending entries: found.pending > 0 or =>
  -- mutant removed under its consumers: or unused == '1' and found.consumers > 0 =>
  if found.pending > 0 or unused == '1' and found.consumers > 0 then return 'holds' end
  redis.call('XGROUP', 'DESTROY', stream, group)
elseif was == '' then
  redis.call('XGROUP', 'CREATE', stream, group, to, 'ENTRIESREAD', entries_read)
else
  redis.call('XGROUP', 'SETID', stream, group, to, 'ENTRIESREAD', entries_read)
end
return 'ok'
