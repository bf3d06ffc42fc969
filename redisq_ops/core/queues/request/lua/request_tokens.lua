-- Tokens: a request's id stands in the list of its priority once for each sub-request that may be taken
-- now.
-- KEYS: p_ prios
-- USES: wake_workers

-- The generation is a counter of the queue: it distinguishes a request's tokens from those of an earlier
-- request of that name, and from those before a change. The first one (`born`) never changes.
local function request_tokens_word(q)
  return q.rid .. '|' .. q.gen
end

-- How many tokens are missing. Surplus ones are dropped when they are popped.
local function request_tokens_lacking(q)
  local live = q.state == 'open' or q.state == 'sealed'
  -- mutant one over the limit: limit => limit + 1
  -- mutant one under the limit: q.pending => 1 - q.pending
  -- mutant a paused request goes on: q.paused ~= 1 and =>
  return live and q.paused ~= 1 and math.min(q.limit - q.pending, q.waiting) - q.tok or 0
end

-- Add the missing tokens.
local function request_tokens_sync(q)
  local short = request_tokens_lacking(q)
  if short <= 0 then return end
  local words, word = {}, request_tokens_word(q)
  for i = 1, short do words[i] = word end
  redis.call('LPUSH', p_ .. q.priority, unpack(words))
  redis.call('ZADD', prios, q.priority, q.priority)
  q.tok = q.tok + short
  wake_workers(short)
end
