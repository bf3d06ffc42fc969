-- What the steps that settle a consumer's pending entries share. A step's number and answer stay in the
-- operation's entry in the audit log, so a step sent again answers as before. `journal`: that entry; the
-- stream itself on a cluster, which keeps the two in different slots. A `consumer` '' stands for entries
-- that nobody has (XNACK, Redis 8.8), which are idle for -1.
-- KEYS: stream
-- NEEDS: group consumer min_idle seq
-- USES: corrupt_values type_check
-- `held_settle(journal, settle)` calls `settle` for each entry that the consumer holds, long enough.
-- Returns one word per id: moved | same (not pending any more) | changed.
local function held_settle(journal, settle)
  local logged, words, given = journal ~= stream, {}, 0
  if logged then
    type_check_key(journal, 'hash')
    corrupt_values_integers(journal, {'done'})
    local number, answer = (redis.call('HGET', journal, 'step') or ''):match('^(%d+) (.*)')
    -- mutant a step sent again is carried out again: number == seq => false
    if number == seq then
      for word in answer:gmatch('%a+') do words[#words + 1] = word end
      return words
    end
  end
  for i = first, #ARGV do
    local row = redis.call('XPENDING', stream, group, ARGV[i], ARGV[i], 1)[1]
    local word = row and 'changed' or 'same'
    -- mutant another consumer's: row[2] == consumer => true
    -- mutant younger ones: row[3] >= tonumber(min_idle) => true
    if row and row[2] == consumer and (row[3] < 0 or row[3] >= tonumber(min_idle)) then
      settle(ARGV[i])
      given, word = given + 1, 'moved'
    end
    words[#words + 1] = word
  end
  if logged then
    redis.call('HSET', journal, 'step', seq .. ' ' .. table.concat(words, ' '))
    redis.call('HINCRBY', journal, 'done', given)
  end
  return words
end
