-- Sidekiq's retry and schedule sets: what is due goes to the queue its record names, its bytes as
-- they are. What names no queue goes to the dead.
-- KEYS: t_retry t_schedule t_queue_ t_dead
-- NEEDS: queue
-- USES: dead_jobs wake_workers history owner_lists
local function promote(max)
  if not sidekiq then return 0 end
  local moved, mine = 0, 0
  local due_by = seconds(now)
  for _, key in ipairs({t_retry, t_schedule}) do
    local due = redis.call('ZRANGE', key, '-inf', due_by, 'BYSCORE', 'LIMIT', '0', max - moved)
    if #due > 0 then fit_lists() end
    for _, payload in ipairs(due) do
      local job = read_record(payload)
      local name = job and job.queue
      local fit = type(name) == 'string' and name ~= ''
      if fit then
        local kind = redis.call('TYPE', t_queue_ .. name).ok
        fit = kind == 'list' or kind == 'none'
      end
      redis.call('ZREM', key, payload)
      if fit then
        to_end(name, payload)
        if name == queue then mine = mine + 1 end
      else
        history_note('dead', shown(payload) .. '|invalid')
        into_set(t_dead, seconds(now), payload)
      end
    end
    moved = moved + #due
  end
  if mine > 0 then wake_workers(mine) end
  return moved
end
