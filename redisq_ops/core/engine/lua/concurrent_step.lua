-- Two runs of a plan may send the same step of a bulk move. `concurrent_step(words)` returns the stored
-- reply of the step, in which `moved` is replaced by `theirs` if the step was sent for another `span`
-- than this one. A step that is sent again by the same run keeps `moved`.
-- KEYS: op_
-- NEEDS: caller span
local function concurrent_step(words)
  if redis.call('HGET', op_ .. caller, 'span') ~= span then
    for k, word in ipairs(words) do words[k] = word == 'moved' and 'theirs' or word end
  end
  return words
end
