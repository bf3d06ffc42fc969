-- Remove entries from the beginning of the stream, if all consumer groups are done with them: up to
-- `upto`, `high` is the next possible id. The server removes whole nodes of at most `most` entries
-- together, then what is left in one node.
-- KEYS: stream journal
-- ARGV: upto high most
-- USES: positions corrupt_values type_check
-- FLAGS: allow-oom
-- Returns how many were removed; -1: a group was moved back, or has an entry pending, or there is none.
if journal ~= stream then
  type_check_key(journal, 'hash')
  corrupt_values_integers(journal, {'done'})
end
local done = false
for name, group in pairs(positions_read()) do
  done = true
  -- mutant what a group hasn't read: positions_before(group.last, upto) => false
  -- mutant what is pending: or #redis.call('XPENDING', stream, name, '-', upto, 1) > 0 =>
  if positions_before(group.last, upto) or #redis.call('XPENDING', stream, name, '-', upto, 1) > 0 then
    return -1
  end
end
if not done then return -1 end
local gone = redis.call('XTRIM', stream, 'MINID', '~', high, 'LIMIT', most)
if gone == 0 then gone = redis.call('XTRIM', stream, 'MINID', high) end
if gone > 0 and journal ~= stream then redis.call('HINCRBY', journal, 'done', gone) end
return gone
