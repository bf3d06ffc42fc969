-- A job's jid, and the record of a job whose workers are lost.
-- IMPLEMENTS: jobs_id jobs_lost
-- NEEDS: queue
-- USES: job_records job_counters
local function jobs_id(payload)
  local job = read_record(payload)
  local jid = job and job.jid
  if type(jid) == 'string' and #jid <= 128 and jid:find('^[!-~]+$') and not jid:find('[{}*|/]') then
    return jid
  end
  return 'x' .. redis.sha1hex(payload):sub(1, 23)
end

local function jobs_lost(payload, times, consumer)
  local job = read_record(payload)
  if not job or next(job) == nil then -- no record: one of ours names its queue and keeps its bytes
    job, payload = {}, table.concat({'{"class":"Redisq::Unreadable","args":[],"jid":"', jobs_id(payload),
      '","queue":', quoted(queue), ',"retry":0,"raw_hex":"', hex(payload), '"}'})
  end
  -- If a member comes twice, Ruby and Python take the last value.
  local unit = type(job.created_at) == 'number' and job.created_at > 1e11 and 'ms' or 's'
  local why = quoted('its worker was lost ' .. times .. ' times, the last was ' .. consumer)
  local more = ',"error_class":"Redisq::LostLease","error_message":' .. why .. ',"failed_at":'
    .. stamp(unit) .. '}'
  return (payload:gsub('}%s*$', function() return more end))
end
