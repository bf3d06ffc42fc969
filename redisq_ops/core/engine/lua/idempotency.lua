-- Calls that are safe to send twice: the last sequence number of each caller is stored with its reply.
-- A call that arrives again gets that reply and changes nothing. Replies are lists of words without
-- spaces.
-- KEYS: callers
-- NEEDS: caller seq
-- USES: corrupt_values
-- FIRST: HGET

-- Returns the stored reply if this call was carried out before; nil if it is new. Fails the call if a
-- later one was carried out.
local function idempotency_replayed()
  -- mutant no guard against re-sending: redis.call('HGET', callers, caller) => nil
  local slot = redis.call('HGET', callers, caller)
  if not slot then return nil end
  local last, words = slot:match('^(%d+) %d+ ?(.*)$')
  if not last then corrupt_values_fail(callers, caller, "a call's number, time and reply") end
  last = tonumber(last)
  if tonumber(seq) > last then return nil end
  if tonumber(seq) < last then
    error({err = 'SUPERSEDED a later call of this caller was already carried out'})
  end
  local reply = {}
  for word in words:gmatch('%S+') do reply[#reply + 1] = word end
  return reply
end

-- Store the reply, and return it. `...`: other fields of `callers` to write with it, and their values.
local function idempotency_remember(reply, ...)
  redis.call('HSET', callers, caller, seq .. ' ' .. now_text .. ' ' .. table.concat(reply, ' '), ...)
  return reply
end

-- The same for one word per row: a single word if all are equal.
local function idempotency_remember_words(results, ...)
  for k = 2, #results do
    if results[k] ~= results[1] then return idempotency_remember(results, ...) end
  end
  return idempotency_remember({results[1]}, ...)
end
