-- The results of a move's step in this queue. `close`: 1 to let no more of its entries in.
-- KEYS: land_
-- ARGV: op step close keep_ms
-- USES: transfer_memory
-- ENTRIES: op_{op}=hash land_{op}:{step}=hash
-- FLAGS: allow-oom
-- Returns ids and results by turns.
local list = land_ .. op .. ':' .. step
if close == '1' then
  transfer_memory_keep(op, step, keep_ms, {'*', 'cancelled'})
end
local kept, reply = redis.call('HGETALL', list), {}
for i = 1, #kept, 2 do
  if kept[i] ~= '*' then reply[#reply + 1], reply[#reply + 2] = kept[i], kept[i + 1]:match('^%S+') end
end
return reply
