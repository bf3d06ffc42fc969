-- Jobs that workers of ours hold: ticket -> payload, each under a lease. A ticket is never used twice;
-- it is id and receipt of the delivery. The hash `lost`: a payload's digest -> how often its worker
-- was lost, and when the last time, until a delivery of the payload is settled.
-- KEYS: lease body lost meta
-- NEEDS: queue
-- USES: record counters wake_workers clock_correction clock config history job_lists
-- USES: jobs_prepend jobs_bury jobs_id jobs_lost
local function tickets(n)
  -- mutant tickets that come again: counters_reserve('fence', n) => 0
  return counters_reserve('fence', n)
end

local function hold(ticket, payload, line, deadline)
  redis.call('HSET', body, ticket, payload)
  redis.call('HSET', meta, ticket, line)
  redis.call('ZADD', lease, deadline, ticket)
end

local function times_lost(digest)
  return tonumber((redis.call('HGET', lost, digest) or ''):match('^%d+')) or 0
end

local function let_go(list)
  if #list == 0 then return end
  redis.call('ZREM', lease, unpack(list))
  redis.call('HDEL', body, unpack(list))
  redis.call('HDEL', meta, unpack(list))
end

local function bring_forward(max)
  return clock_correction({lease}, false, max, function(_, ticket, deadline, r)
    redis.call('ZADD', lease, deadline, ticket)
    redis.call('HSET', meta, ticket, record_pack(r))
  end)
end

-- A job whose worker was lost waits again, or is dead after `max_lost` times.
local function return_or_bury(payload, record)
  local digest = redis.sha1hex(payload)
  history_note('lost', jobs_id(payload) .. '|' .. record.consumer)
  -- Equal jobs share a count: a delivery that began before the last loss adds no further one.
  local known, at = (redis.call('HGET', lost, digest) or ''):match('^(%d+) (%d+)')
  local times = tonumber(known or 0) + (record.since < tonumber(at or 0) and 0 or 1)
  redis.call('HSET', lost, digest, times .. ' ' .. now)
  -- mutant lost workers not counted: times => 1
  -- mutant dead one lost worker late: times >= config => times > config
  if times >= config.max_lost then
    redis.call('HDEL', lost, digest)
    history_note('dead', jobs_id(payload) .. '|lost')
    jobs_bury(queue, jobs_lost(payload, times, record.consumer))
  else
    jobs_prepend(queue, payload)
  end
end

local function reap(max)
  local brought = (clock_fall or clock_latest > now) and bring_forward(100) or 0
  -- mutant leases not looked at: now_text => '+inf'
  local late = redis.call('ZRANGE', lease, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', max)
  if #late == 0 then return brought end
  fit_lists()
  local payloads, lines = redis.call('HMGET', body, unpack(late)), record_read(late)
  -- mutant what was lost comes back in disorder: #late, 1, -1 => 1, #late
  for i = #late, 1, -1 do -- the one that was due first is the next one taken
    local payload = payloads[i]
    if payload then return_or_bury(payload, lines[i]) end -- else someone removed the payload
  end
  let_go(late)
  wake_workers(#late)
  return #late + brought
end
