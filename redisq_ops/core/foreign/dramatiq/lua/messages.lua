-- Dramatiq's keys of one queue, and where messages are in them: an id is in a list, a sorted set or,
-- once a broker has fetched it, in a set of that broker; the message is in a hash beside the list.
-- IMPLEMENTS: moves_lacks_record
-- KEYS: t_heartbeats
-- NEEDS: queue
local SILENT = 60000 -- ms of silence after which a broker is gone: Dramatiq's `heartbeat_timeout`
local base = t_heartbeats:sub(1, -#'__heartbeats__' - 1)
local list = base .. queue
local types = {[list] = 'list', [list .. '.DQ'] = 'list', [list .. '.XQ'] = 'zset'}

local function messages_type(key) return types[key] or 'set' end

local function messages_fetched(e) return not types[e.key] end

-- The list from which a broker fetched a message.
local function messages_list(e)
  local held = '.' .. queue .. '.DQ'
  return e.key:sub(-#held) == held and list .. '.DQ' or list
end

local function messages_of(e) return (types[e.key] and e.key or messages_list(e)) .. '.msgs' end

-- The message in a hash, if it is the one of that digest.
local function messages_get(hash, e, digest)
  local message = redis.call('HGET', hash, e.member)
  -- mutant comparison off: redis.sha1hex(message) == digest and =>
  return message and redis.sha1hex(message) == digest and message
end

-- The last heartbeat of the broker that fetched a message; nil: Dramatiq has forgotten the broker.
local function messages_heartbeat(e)
  local name = messages_list(e):sub(#base + 1)
  local broker = e.key:sub(#base + #'__acks__.' + 1, -#name - 2)
  return tonumber(redis.call('ZSCORE', t_heartbeats, broker) or nil)
end

local function moves_lacks_record(e)
  if messages_fetched(e) then
    local heard = messages_heartbeat(e)
    if not heard then return nil end -- nobody looks after that set
    if heard > now - SILENT then return nil, 'busy' end
  end
  return redis.call('HEXISTS', messages_of(e), e.member) == 0
end
