-- Safe to send twice: each caller's last sequence is kept with its reply, and a call that arrives
-- again gets that reply and changes nothing. Replies are lists of words without spaces.
-- The script using this names ARGV `caller` and `seq`.
-- KEYS: callers
-- NEEDS: caller seq
-- USES: corrupt_values
-- FIRST: HGET
local function idempotency_replayed()
  local slot = redis.call('HGET', callers, caller)
  if not slot then return nil end
  local last, words = slot:match('^(%d+) %d+ ?(.*)$')
  if not last then corrupt_values_fail(callers, caller, "a call's number, time and reply") end
  last = tonumber(last)
  if tonumber(seq) > last then return nil end
  if tonumber(seq) < last then return nil, true end
  local reply = {}
  for word in words:gmatch('%S+') do reply[#reply + 1] = word end
  return reply
end

-- Behind `reply`: other fields and words of `callers` to be written along.
local function idempotency_remember(reply, ...)
  redis.call('HSET', callers, caller, seq .. ' ' .. now_text .. ' ' .. table.concat(reply, ' '), ...)
  return reply
end

-- The same of a word for each row; alone it is for all of them.
local function idempotency_remember_words(results, ...)
  for k = 2, #results do
    if results[k] ~= results[1] then return idempotency_remember(results, ...) end
  end
  return idempotency_remember({results[1]}, ...)
end

local idempotency_superseded = {err = 'SUPERSEDED a later call of this caller was already carried out'}
