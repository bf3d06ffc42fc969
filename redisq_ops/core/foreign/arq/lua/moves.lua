-- What arq's own client would write. `e.key` is the queue, `e.member` the job's id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- KEYS: t_job_ t_result_ t_retry_ t_abort
-- USES: jobs kept_keys type_check
local DAY = 86400000 -- ms after its due time at which a job expires

local function holds(key, digest)
  local data = redis.call('GET', key)
  -- mutant comparison off: redis.sha1hex(data) == digest and =>
  return data and redis.sha1hex(data) == digest and data
end

local function moves_fit(e)
  -- mutant set's type check off
  type_check_key(e.key, 'zset')
  for _, prefix in ipairs({t_job_, t_result_, t_retry_}) do
    -- mutant type check off
    type_check_key(prefix .. e.member, 'string')
  end
end

local function moves_take_out(e, to)
  local what, digest = e.stamp:match('^(%l+) (%x+)$')
  -- mutant mark ignored: or jobs_in_progress(e) =>
  if not what or jobs_in_progress(e) then return nil, what and 'busy' end
  local is_job = what == 'job'
  local keys = {(is_job and t_job_ or t_result_) .. e.member, is_job and t_retry_ .. e.member or nil}
  local data = holds(keys[1], digest)
  if not data then return nil end
  local score = redis.call('ZSCORE', e.key, e.member)
  -- mutant score ignored: is_job and tonumber(score or nil) ~= tonumber(e.seen) => false
  if is_job and tonumber(score or nil) ~= tonumber(e.seen) then return nil end
  local replay = not is_job and to == 'waiting'
  if replay and (score or redis.call('EXISTS', t_job_ .. e.member) == 1) then return nil end
  if e.dry then return true end
  e.score, e.digest = is_job and score, digest
  e.expires = redis.call('PEXPIRETIME', keys[1])
  if is_job then jobs_leave_queue(e) end
  if not is_job or to == 'trash' or to == 'gone' then
    e.kept, e.shown = to ~= 'gone' and kept_keys_dump(keys), to == 'trash' and data or nil
    e.abort = redis.call('ZSCORE', t_abort, e.member) -- else a worker aborts the next run
    if e.abort then redis.call('ZREM', t_abort, e.member) end
    -- mutant record left
    redis.call('UNLINK', unpack(keys))
  end
  return true
end

local function moves_put_in(e, to, at)
  local key, due = t_job_ .. e.member, to == 'delayed' and at or now
  e.there = string.format('%.0f', due)
  if e.kept then
    redis.call('PSETEX', key, DAY, e.put)
    e.digest, e.put = redis.sha1hex(e.put), nil
  elseif e.expires >= 0 and e.expires < due + DAY then
    redis.call('PEXPIREAT', key, string.format('%.0f', due + DAY))
  end
  redis.call('ZADD', e.key, e.there, e.member)
end

local function moves_take_back(e)
  local score = redis.call('ZSCORE', e.key, e.member)
  if not score or tonumber(score) ~= tonumber(e.there) or jobs_in_progress(e) then return nil end
  if not holds(t_job_ .. e.member, e.digest) then return nil end
  jobs_leave_queue(e)
  if e.kept then redis.call('UNLINK', t_job_ .. e.member) end
  return true
end

local function moves_restorable(e)
  local here = redis.call('EXISTS', t_job_ .. e.member, t_result_ .. e.member)
  if not e.kept then return here == 1 end
  local free = here == 0 and not redis.call('ZSCORE', e.key, e.member)
  return (free or e.there) and kept_keys_restorable(e.kept)
end

local function moves_put_back(e)
  if e.kept then
    -- mutant undo forgets the record
    kept_keys_restore(e.kept)
  elseif e.expires >= 0 then
    redis.call('PEXPIREAT', t_job_ .. e.member, string.format('%.0f', e.expires))
  end
  -- mutant undo forgets the score: key, e.score => key, 1
  if e.score then redis.call('ZADD', e.key, e.score, e.member) end
  if e.abort then redis.call('ZADD', t_abort, e.abort, e.member) end
end
