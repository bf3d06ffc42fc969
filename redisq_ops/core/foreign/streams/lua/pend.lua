-- Make acknowledged entries pending again as they were, with their consumer, the time (ms) of their last
-- delivery and the number of deliveries.
-- KEYS: stream
-- ARGV: group consumer
-- REST: id since deliveries
-- USES: positions
-- FLAGS: allow-oom
-- Returns one word per id: moved | there (the consumer has it already) | changed (another has it, it is
-- gone from the stream, or the group was moved back and receives it again).
local found, words = positions_read()[group], {}
for i = first, #ARGV, width do
  local id, word = ARGV[i], 'changed'
  local row = found and redis.call('XPENDING', stream, group, id, id, 1)[1]
  if row then
    -- mutant another consumer's is taken for its own: row[2] == consumer => true
    word = row[2] == consumer and 'there' or 'changed'
  -- mutant also what the group receives again: and not positions_before(found.last, id) =>
  elseif found and not positions_before(found.last, id) then
    -- By its id alone the server would also add one that is no more; it looks whether it is there.
    local idle = math.max(0, now - tonumber(ARGV[i + 1]))
    local got = redis.call('XCLAIM', stream, group, consumer, 0, id, 'IDLE', idle, 'RETRYCOUNT',
      ARGV[i + 2], 'FORCE', 'JUSTID')
    if #got > 0 then word = 'moved' end
  end
  words[#words + 1] = word
end
return words
