-- What RQ writes when a job goes from one of its lists and sets to another. `e.member` is the job's id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_queues t_queue_ t_results_ t_scheduled_ t_job_
-- USES: jobs element remove_from_list kept_keys calendar stamps type_check
-- mutant undo forgets the state: 'status', =>
local CHANGED = {'status', 'enqueued_at', 'started_at', 'ended_at', 'exc_info'}
local NO_TEXT = 'x\156\3\0\0\0\0\1' -- zlib, of nothing
local FOREVER = 10000000000 -- seconds
local SOON = 60 -- s: RQ's scheduler may already handle a job that is due this soon

-- The place of an id -> the status of its job there. RQ enqueues an id again wherever else it is.
local STATUS = {queue = 'queued', scheduled = 'scheduled', failed = 'failed', finished = 'finished',
  canceled = 'canceled'}

local function is_again(e, status)
  local place = e.key:match('^%l+', #t_job_ - 3) -- behind what all keys begin with
  if status == 'stopped' then status = 'failed' end
  return STATUS[place] ~= status
end

local function is_list(key)
  return key:sub(1, #t_queue_) == t_queue_
end

local function is_due(e)
  return e.key:sub(1, #t_scheduled_) == t_scheduled_ and tonumber(e.score) < now / 1000 + SOON
end

local function list_of(e) return t_queue_ .. (jobs_of(e).origin or '') end

local function moves_fit(e)
  type_check_key(e.key, is_list(e.key) and 'list' or 'zset')
  -- mutant list's type check off
  type_check_key(list_of(e), 'list')
end

local function moves_take_out(e, to)
  local job, kind = jobs_of(e), is_list(e.key) and 'list' or 'zset'
  local told = {job.created_at or '', job.enqueued_at or '', job.ended_at or '', job.status or ''}
  -- mutant comparison off
  if stamps_of(told) ~= e.stamp then return nil end
  if job.rate_limit_key and job.rate_limit_key ~= '' then return nil, 'limited' end
  if not job.created_at then return nil end -- it expired
  if is_again(e, job.status) then return nil, 'again' end
  if kind == 'zset' then
    if not element_scored(e) then return nil end
    if is_due(e) then return nil, 'due' end
  end
  if e.dry then return true end
  if to == 'waiting' or to == 'delayed' then
    e.before = kept_keys_fields(job, CHANGED, job.keys)
  end
  local keys = {unpack(job.keys)}
  -- mutant results left
  keys[#keys + 1] = t_results_ .. e.member
  local kept = to == 'trash' and kept_keys_dump(keys) or nil
  e.shown = kept and (redis.call('HGET', job.key, 'description') or '')
  local ok, why = element_leaves(e, kind)
  if not ok then return nil, why end
  if not e.before then
    e.kept = kept
    redis.call('UNLINK', unpack(keys))
    jobs_changed(e)
  end
  return true
end

local listed = {}
local function moves_put_in(e, to, at)
  if to == 'delayed' then
    e.there = string.format('%.0f', math.floor(at / 1000))
    redis.call('ZADD', e.key, e.there, e.member)
    return
  end
  local job, list = jobs_of(e), list_of(e)
  local year, month, day, hour, minute, second = calendar_date(now)
  e.there = string.format('%04d-%02d-%02dT%02d:%02d:%02d.%06dZ', year, month, day, hour, minute, second,
    now % 1000 * 1000)
  local front = false
  if e.key:sub(1, #t_scheduled_) == t_scheduled_ then
    -- mutant state not set: 'status', 'queued', 'enqueued_at' => 'enqueued_at'
    redis.call('HSET', job.key, 'status', 'queued', 'enqueued_at', e.there)
    front = job.enqueue_at_front == '1'
  else
    -- mutant state not set: 'status', 'queued', 'enqueued_at' => 'enqueued_at'
    redis.call('HSET', job.key, 'status', 'queued', 'enqueued_at', e.there,
      -- mutant times left: 'started_at', '', 'ended_at', '', =>
      'started_at', '', 'ended_at', '', 'exc_info', NO_TEXT)
  end
  local ttl = tonumber(job.ttl)
  for _, key in ipairs(job.keys) do
    if ttl and ttl >= 1 and ttl < FOREVER then
      redis.call('EXPIRE', key, string.format('%.0f', math.floor(ttl)))
    else
      -- mutant expiry left
      redis.call('PERSIST', key)
    end
  end
  if not listed[list] then redis.call('SADD', t_queues, list) end
  listed[list] = true
  -- mutant wrong end: front and 'LPUSH' or 'RPUSH' => 'LPUSH'
  redis.call(front and 'LPUSH' or 'RPUSH', list, e.member)
  jobs_changed(e)
  e.stamp = nil
  return list, e.member
end

local function moves_take_back(e, to, list, seen)
  local job = jobs_of(e)
  if list then
    -- mutant undo of what runs again
    if job.status ~= 'queued' or job.enqueued_at ~= e.there then return nil end
    return out_of_list(list, e.member, seen)
  end
  if job.status ~= 'scheduled' or is_due({key = e.key, score = e.there}) then return nil end
  return element_leaves_again(e, e.key)
end

local function moves_restorable(e)
  if e.kept then return kept_keys_restorable(e.kept) end
  return e.before.times[1] < 0 or e.before.times[1] > now
end

local function moves_put_back(e)
  if e.kept then
    kept_keys_restore(e.kept)
  else
    kept_keys_put_fields(CHANGED, jobs_keys(e), e.before)
  end
  return element_returns(e)
end
