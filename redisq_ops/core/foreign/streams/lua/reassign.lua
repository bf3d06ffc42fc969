-- Give pending entries of one consumer to another, by identity. With `remove` the call then removes
-- the first one if it holds nothing: XGROUP DELCONSUMER alone loses what a consumer holds. Idle times
-- and delivery counts stay, so a claim by age finds the entries as before. An empty `consumer`:
-- entries that nobody has, since their consumer gave them back (XNACK, Redis 8.8); they are idle for
-- -1.
-- `journal`: the operation's entry in the audit log, where the step counts what it gave; the stream
-- itself on a cluster, which keeps the two in different slots.
-- KEYS: stream journal
-- ARGV: group consumer to min_idle remove
-- REST: id
-- USES: corrupt_values type_check
-- FLAGS: allow-oom
-- Returns 1 if the consumer was removed, one word per id: moved | there (`to` has it already, as
-- after the same call before) | changed | gone (it was trimmed from the stream: nobody can work on
-- it).
if journal ~= stream then
  type_check_key(journal, 'hash')
  corrupt_values_integers(journal, {'done'})
end
local reply, given = {'0'}, 0

local function give(row)
  local got = redis.call('XCLAIM', stream, group, to, 0, row[1], 'IDLE', math.max(0, row[3]),
    'JUSTID')
  given = given + #got
  return #got > 0 and 'moved' or 'gone'
end

for i = first, #ARGV do
  local row, word = redis.call('XPENDING', stream, group, ARGV[i], ARGV[i], 1)[1], 'changed'
  if row and row[2] == to then
    word = 'there'
  elseif row and row[2] == consumer and (row[3] < 0 or row[3] >= tonumber(min_idle)) then
    word = give(row)
  end
  reply[#reply + 1] = word
end
if remove == '1' and #redis.call('XPENDING', stream, group, '-', '+', 1, consumer) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
  reply[1] = '1'
end
if given > 0 and journal ~= stream then redis.call('HINCRBY', journal, 'done', given) end
return reply
