-- Of a step of a bulk move that was sent before: what another hand, by its `span`, moved by it is
-- `theirs`. One's own stays `moved`, however often it is sent.
-- KEYS: op_
-- NEEDS: caller span
local function concurrent_step(words)
  if redis.call('HGET', op_ .. caller, 'span') ~= span then
    for k, word in ipairs(words) do words[k] = word == 'moved' and 'theirs' or word end
  end
  return words
end
