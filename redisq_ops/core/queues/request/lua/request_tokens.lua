-- Tokens: ids of requests in the lists of their priorities.
-- Tokens in the list = what may be taken now. Surplus ones are dropped when they are popped.
-- KEYS: p_ prios
-- USES: request wake_workers
local function request_tokens_lacking(q)
  return q.paused == 1 and 0 or math.min(q.limit - q.pending, q.waiting) - q.tok
end

local function request_tokens_sync(q)
  local short = request_tokens_lacking(q)
  if short <= 0 or (q.state ~= 'open' and q.state ~= 'sealed') then return end
  local words, word = {}, request_token(q)
  for i = 1, short do words[i] = word end
  redis.call('LPUSH', p_ .. q.priority, unpack(words))
  redis.call('ZADD', prios, q.priority, q.priority)
  q.tok = q.tok + short
  wake_workers(short)
end
