-- Records read (never written: what Lua encodes anew isn't what was sent), and the end of a job whose
-- workers vanish.
-- KEYS: t_dead
-- NEEDS: queue
-- USES: owner_counters owner_lists
local function read_record(text)
  local ok, found = pcall(cjson.decode, text)
  if not ok then -- half a character, which JSON allows and cjson doesn't
    ok, found = pcall(cjson.decode, (text:gsub('\\u[dD][89a-fA-F]%x%x', '\\u003f')))
  end
  return ok and type(found) == 'table' and text:find('^%s*{.*}%s*$') and found or nil
end

local function quoted(word)
  return '"' .. word:gsub('[\\"]', '\\%0') .. '"'
end

-- The id under which an entry is shown, for the history.
local function shown(payload)
  if not sidekiq then return redis.sha1hex(payload):sub(1, 16) end
  local job = read_record(payload)
  local jid = job and job.jid
  if type(jid) == 'string' and #jid <= 128 and jid:find('^[!-~]+$') and not jid:find('[{}*|/]') then
    return jid
  end
  return 'x' .. redis.sha1hex(payload):sub(1, 23)
end

local function hex(payload)
  return (payload:gsub('.', function(c) return string.format('%02x', c:byte()) end))
end

-- Whose worker vanished with it once too often: dead, and the record says why in the owner's terms.
local function bury_lost(payload, times, consumer)
  local job = read_record(payload)
  local why = quoted('its worker was lost ' .. times .. ' times, the last was ' .. consumer)
  if not sidekiq then
    if not job then payload = '{"class":null,"args":[],"raw_hex":"' .. hex(payload) .. '"}' end
    to_failed(queue, table.concat({'{"payload":', payload,
      ',"exception":"Redisq::LostLease","error":', why, ',"backtrace":[],"worker":', quoted(consumer),
      ',"queue":', quoted(queue), ',"failed_at":', stamp('date'), '}'}))
    return
  end
  if not job or next(job) == nil then -- no record: one of ours names its queue and keeps its bytes
    job, payload = {}, table.concat({'{"class":"Redisq::Unreadable","args":[],"jid":"', shown(payload),
      '","queue":', quoted(queue), ',"retry":0,"raw_hex":"', hex(payload), '"}'})
  end
  -- A name that comes twice has its last value, for Ruby as for Python.
  local unit = type(job.created_at) == 'number' and job.created_at > 1e11 and 'ms' or 's'
  local more = ',"error_class":"Redisq::LostLease","error_message":' .. why .. ',"failed_at":'
    .. stamp(unit) .. '}'
  payload = payload:gsub('}%s*$', function() return more end)
  into_set(t_dead, seconds(now), payload)
end
