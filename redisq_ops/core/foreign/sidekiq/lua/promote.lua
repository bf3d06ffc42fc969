-- Sidekiq's retry and schedule sets: jobs that are due go to the queue that their record names, with
-- their bytes unchanged. One that names no queue goes to the dead set.
-- IMPLEMENTS: jobs_promote
-- KEYS: t_retry t_schedule t_dead
-- NEEDS: queue
-- USES: job_records job_lists wake_workers history jobs_append jobs_id
local function jobs_promote(max)
  local moved, mine = 0, 0
  local due_by = seconds(now)
  for _, key in ipairs({t_retry, t_schedule}) do
    -- mutant promoted too early: due_by => '+inf'
    local due = redis.call('ZRANGE', key, '-inf', due_by, 'BYSCORE', 'LIMIT', '0', max - moved)
    if #due > 0 then fit_lists() end
    for _, payload in ipairs(due) do
      local job = read_record(payload)
      local name = job and job.queue
      -- mutant promoted and still there
      redis.call('ZREM', key, payload)
      if type(name) == 'string' and name ~= '' and can_wait(name) then
        -- mutant promoted in other bytes: payload => cjson.encode(job)
        jobs_append(name, payload)
        if name == queue then mine = mine + 1 end
      else
        history_note('dead', jobs_id(payload) .. '|invalid')
        into_set(t_dead, seconds(now), payload)
      end
    end
    moved = moved + #due
  end
  if mine > 0 then wake_workers(mine) end
  return moved
end
