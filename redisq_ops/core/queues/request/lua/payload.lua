-- The payload of a sub-request. Entries of a stream can't be changed, so an edited payload is kept
-- beside it, in `edited`, and goes with the entry.
-- KEYS: edited s_
-- IMPLEMENTS: storage_payload storage_set_payload storage_stored_payload
-- USES: request
local function submitted(id)
  local rid, n = request_split(id)
  local found = redis.call('XRANGE', s_ .. rid, n .. '-0', n .. '-0')
  return found[1] and found[1][2][2] or false
end

local function storage_payload(id)
  return redis.call('HGET', edited, id) or submitted(id)
end

local function storage_set_payload(id, payload)
  if payload == submitted(id) then
    redis.call('HDEL', edited, id)
  else
    redis.call('HSET', edited, id, payload)
  end
end

local function storage_stored_payload(id)
  return storage_payload(id)
end
