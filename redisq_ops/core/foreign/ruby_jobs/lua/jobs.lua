-- The jobs interface: the hooks in which Resque and Sidekiq differ. Each implements them in Lua files of
-- its own folder (header: IMPLEMENTS). A hook without a default is required. `queue` is the owner's name
-- of the queue; a job is the bytes of its record.
-- INTERFACE: jobs

-- jobs_append(name, ...): puts jobs at the end of a queue's list where new ones come.

-- jobs_prepend(name, job): puts a job where the next one is taken.

-- jobs_pop(name, n): removes up to n jobs from a queue and returns them, the next one first.

-- jobs_taken_right(): whether workers take from the right end of a list.
local function jobs_taken_right() return false end

-- jobs_paused(): whether the owner's own mark pauses the queue.

-- jobs_in_list(key): whether a place of the owner's is a list; else it is a sorted set.

-- jobs_linked(stamp): whether something waits until the job has ended; `stamp` is the job's. Reads only.
local function jobs_linked() return false end

-- jobs_fit(): fails the call if a key to which failed jobs go is of another type.
local function jobs_fit() end

-- jobs_retry(job, ms): keeps a failed job for another attempt.
local function jobs_retry() end

-- jobs_bury(name, record): keeps a failure of a queue's job.

-- jobs_lost(job, times, consumer): makes the record of a job whose worker was lost too often.

-- jobs_id(job): the id of a job, as Python's `id_of`.

-- jobs_promote(max): appends up to `max` jobs that are due to their queues. Returns how many.
local function jobs_promote() return 0 end

-- jobs_daily(name, n): counts what `count_jobs` counted on the day as well.
local function jobs_daily() end
