-- The ids of all messages of a shard, and what is removed when it is given up.
-- KEYS: body messages circle stray eoq dry_runs
-- IMPLEMENTS: storage_scan storage_clear
local function storage_scan(cursor, max)
  local hidden = cursor:match('^b(%d+)$')
  local page = redis.call('HSCAN', hidden and body or messages, hidden or cursor, 'COUNT', max)
  local after = page[1]
  if not hidden and after == '0' then
    after = 'b0'
  elseif hidden and after ~= '0' then
    after = 'b' .. after
  end
  return after, page[2]
end

-- Carmine's own keys go too, unless another program has put messages there.
local function storage_clear()
  if redis.call('EXISTS', messages) == 0 then
    redis.call('UNLINK', circle, stray, eoq, dry_runs)
  end
end
