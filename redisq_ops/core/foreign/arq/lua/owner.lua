-- What arq keeps of a job, and what its own client would write. `e.key` is the queue, `e.member` the id.
-- A worker looks at a job in two steps, and WATCHes its mark between them: whoever touches the mark breaks
-- the second.
-- REPLACES: owner
-- KEYS: t_job_ t_result_ t_retry_ t_progress_ t_abort
-- USES: owner_keys type_check
local DAY = 86400000 -- a job expires so many ms after it is due

-- What the stamp says: job or result, the digest of its bytes, what is shown, the job to be put in.
local function parts(e)
  local what, digest, n, rest = e.stamp:match('^(%l+) (%x+) (%d+) (.*)$')
  if not what then return nil end
  return what, digest, rest:sub(1, tonumber(n)), rest:sub(tonumber(n) + 1)
end

local function is(key, digest)
  local data = redis.call('GET', key)
  return data and redis.sha1hex(data) == digest
end

local function stop_start(e)
  redis.call('SET', t_progress_ .. e.member, '1')
  redis.call('DEL', t_progress_ .. e.member)
end

local function owner_fit(e)
  type_check_key(e.key, 'zset')
  for _, prefix in ipairs({t_job_, t_result_, t_retry_, t_progress_}) do
    type_check_key(prefix .. e.member, 'string')
  end
end

local function owner_take_out(e, to)
  local what, digest, shown, job = parts(e)
  if not what then return nil end
  if redis.call('EXISTS', t_progress_ .. e.member) == 1 then return nil, 'busy' end
  e.shown, e.stamp = shown, e.stamp:sub(1, #e.stamp - #job)
  if what == 'result' then
    local key = t_result_ .. e.member
    if not is(key, digest) then return nil end
    if to == 'waiting' then
      if job == '' then return nil, 'invalid' end
      if redis.call('EXISTS', t_job_ .. e.member) == 1 then return nil end
      e.job = job
    end
    e.kept = to ~= 'gone' and owner_keys_dump({key}) or nil
    redis.call('UNLINK', key)
    return true
  end
  e.score = redis.call('ZSCORE', e.key, e.member)
  if not e.score or tonumber(e.score) ~= tonumber(e.seen) then return nil end
  local keys = {t_job_ .. e.member, t_retry_ .. e.member}
  if not is(keys[1], digest) then return nil end
  stop_start(e)
  redis.call('ZREM', e.key, e.member)
  if to == 'trash' or to == 'gone' then
    e.kept = to == 'trash' and owner_keys_dump(keys) or nil
    e.abort = redis.call('ZSCORE', t_abort, e.member)
    redis.call('ZREM', t_abort, e.member)
    redis.call('UNLINK', unpack(keys))
  else
    e.digest, e.until_ms = digest, redis.call('PEXPIRETIME', keys[1])
  end
  return true
end

local function owner_put_in(e, to, at)
  local job, due = t_job_ .. e.member, to == 'delayed' and at or now
  e.there = string.format('%.0f', due)
  if e.job then
    redis.call('PSETEX', job, DAY, e.job)
    e.digest, e.job = redis.sha1hex(e.job), nil
  elseif e.until_ms >= 0 and e.until_ms < due + DAY then
    redis.call('PEXPIREAT', job, string.format('%.0f', due + DAY))
  end
  redis.call('ZADD', e.key, e.there, e.member)
end

local function owner_take_back(e)
  local score = redis.call('ZSCORE', e.key, e.member)
  if not score or tonumber(score) ~= tonumber(e.there) then return nil end
  if redis.call('EXISTS', t_progress_ .. e.member) == 1 then return nil end
  if not is(t_job_ .. e.member, e.digest) then return nil end
  stop_start(e)
  redis.call('ZREM', e.key, e.member)
  if e.kept then redis.call('UNLINK', t_job_ .. e.member) end
  return true
end

local function owner_restorable(e)
  if not e.kept then return redis.call('EXISTS', t_job_ .. e.member) == 1 end
  if not e.there and (redis.call('EXISTS', t_job_ .. e.member, t_result_ .. e.member) > 0
    or redis.call('ZSCORE', e.key, e.member)) then return false end
  return owner_keys_restorable(e.kept)
end

local function owner_put_back(e)
  if e.kept then owner_keys_restore(e.kept) end
  if e.until_ms and e.until_ms >= 0 then
    redis.call('PEXPIREAT', t_job_ .. e.member, string.format('%.0f', e.until_ms))
  end
  if e.score then redis.call('ZADD', e.key, e.score, e.member) end
  if e.abort then redis.call('ZADD', t_abort, e.abort, e.member) end
end

local function owner_shown(e)
  return e.shown
end
