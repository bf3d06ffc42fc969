-- Drop entries that another shard has accepted, if `transit` still has the same mark.
-- KEYS: transit body meta err
-- REST: id mark
-- USES: storage_next_runs
-- FLAGS: allow-oom
-- Returns how many were removed.
local went = {}
for i = first, #ARGV, width do
  local line = redis.call('HGET', transit, ARGV[i])
  if line and line:match('^%S+') == ARGV[i + 1] then went[#went + 1] = ARGV[i] end
end
if #went > 0 then
  -- mutant moved twice: body, =>
  -- mutant left behind: transit, =>
  for _, key in ipairs({transit, body, meta, err}) do redis.call('HDEL', key, unpack(went)) end
  if storage_next_runs then redis.call('HDEL', storage_next_runs, unpack(went)) end
end
return #went
