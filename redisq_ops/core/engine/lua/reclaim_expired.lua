-- Take back overdue deliveries. There is no process for that: every take does it for a few. Times that
-- a clock that fell back would delay are corrected on the way.
-- KEYS: lease delay stat
-- USES: transitions wake_workers clock_correction clock config history record storage_relative_times
-- USES: storage_timed write_buffer take_rate
local reclaim_expired_dead = {} -- ids of those that are dead now

local function reclaim_expired_correct_clock(max)
  local brought = clock_correction({lease, delay}, storage_relative_times, max, function(zset, id, at, r)
    write_buffer_add(zset, at, id)
    write_buffer_record(id, record_pack(r))
    storage_timed(zset, id, at)
  end)
  if brought > 0 then wake_workers(1) end
  return brought
end

-- Mark a new entry's ready time as correct, while others are being corrected.
local function reclaim_expired_mark_new(id)
  local r = record_unpack(nil)
  r.since = now
  write_buffer_record(id, record_pack(r))
end

-- Take back up to `max` overdue deliveries: they wait again, or are dead if lost too often.
-- Returns how many entries were changed; the caller flushes.
local function reclaim_expired(max)
  local brought = (clock_fall or clock_latest > now) and reclaim_expired_correct_clock(100) or 0
  -- mutant leases not looked at: now_text => '+inf'
  local late = redis.call('ZRANGE', lease, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', max)
  for i, r in ipairs(record_read(late)) do
    local id = late[i]
    -- mutant dead one lost lease late: max_lost => max_lost + 1
    local spent = record_spend(r, 'lost', config.max_lost)
    r.op = '-'
    history_note('lost', id .. '|' .. r.consumer)
    if spent then
      r.reason = 'lost'
      history_note('dead', id .. '|lost')
      reclaim_expired_dead[#reclaim_expired_dead + 1] = id
      transitions_move(id, 'pending', 'dead', now, r)
    else
      -- mutant order lost with a lease: r.ready > 0 and math.min(r.ready, now) or =>
      transitions_move(id, 'pending', 'waiting', r.ready > 0 and math.min(r.ready, now) or now, r)
    end
  end
  return #late + brought
end

-- One of the idle workers wakes at the next due time; the others sleep as long as they like. Returns the
-- time (ms) when `sleeper` has to look again, 0 if it needn't. `early`: when something else is due.
local function reclaim_expired_watch(sleeper, early)
  local stopped = take_rate_next()
  local due = stopped or early
  for _, key in ipairs(stopped and {lease} or {lease, delay}) do
    local top = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
    if top[2] and (not due or tonumber(top[2]) < due) then due = tonumber(top[2]) end
  end
  if not due then return 0 end
  local held = redis.call('HMGET', stat, 'watch_by', 'watch_until')
  local til = tonumber(held[2])
  if til and held[1] ~= sleeper and now <= til and til <= due + 500 then return 0 end
  redis.call('HSET', stat, 'watch_by', sleeper, 'watch_until', math.max(due, now) + 200)
  return due
end

-- Give up the watch; returns whether `sleeper` had it.
local function reclaim_expired_leave_watch(sleeper)
  if redis.call('HGET', stat, 'watch_by') ~= sleeper then return false end
  return redis.call('HDEL', stat, 'watch_by', 'watch_until') > 0
end
