-- Whether a worker of arq has begun a job, and whether the job's record is gone.
-- IMPLEMENTS: moves_lacks_record
-- KEYS: t_job_ t_progress_
local function jobs_in_progress(e) return redis.call('EXISTS', t_progress_ .. e.member) == 1 end

local function moves_lacks_record(e)
  if jobs_in_progress(e) then return nil, 'busy' end
  return redis.call('EXISTS', t_job_ .. e.member) == 0
end

-- A worker starts a job in two steps and WATCHes its mark between them: writing the mark makes the
-- second step fail.
local function jobs_leave_queue(e)
  redis.call('SET', t_progress_ .. e.member, '1')
  redis.call('DEL', t_progress_ .. e.member)
  redis.call('ZREM', e.key, e.member)
end
