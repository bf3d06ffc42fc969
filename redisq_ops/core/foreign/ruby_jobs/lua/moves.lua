-- What is written when a job goes from one place of Resque's or Sidekiq's to another. Jobs are found by
-- their exact bytes, `e.member`. One that a worker of ours holds is in `lease`, by its ticket. A
-- job goes back to its place in a list, or to the end where new ones come if its neighbour is long.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- IMPLEMENTS: moves_take_restored moves_done
-- KEYS: lease body meta t_queue_ t_queues
-- NEEDS: queue caller
-- USES: type_check remove_from_list put_into_list leased_jobs job_lists record wake_workers
-- USES: jobs_append jobs_prepend jobs_in_list jobs_taken_right jobs_linked
local NEIGHBOUR = 1024 -- bytes: a longer neighbour isn't kept to find a job's place again

local function is_list(key)
  return key ~= lease and jobs_in_list(key)
end

local function is_open(key)
  return not type_check_mismatch(key, is_list(key) and 'list' or 'zset')
end

local function moves_fit(e, to)
  -- mutant type check off: to and not e.label => false
  if to and not e.label then type_check_key(e.key, is_list(e.key) and 'list' or 'zset') end
  local leaves = not e.label and (to == 'trash' or to == 'gone')
  if leaves and jobs_linked(e.stamp) then e.linked = true end
end

local function moves_take_out(e, to)
  if e.linked then return nil, 'linked' end
  if to == 'waiting' and not can_wait(e.queue) then return nil, 'invalid' end
  if e.dry then return true end
  if is_list(e.key) then
    e.rank, e.left = tonumber(e.seen), left_of(e.key, e.member, tonumber(e.seen))
    if e.left and #e.left > NEIGHBOUR then e.left, e.appended = nil, true end
    return out_of_list(e.key, e.member, tonumber(e.seen))
  end
  e.score = redis.call('ZSCORE', e.key, e.member)
  if not e.score then return nil end
  -- Its deadline moves while a worker holds it; anywhere else another score means that it came again.
  -- mutant score ignored: e.key ~= lease and tonumber(e.score) ~= tonumber(e.seen) => false
  if e.key ~= lease and tonumber(e.score) ~= tonumber(e.seen) then return nil end
  if e.key == lease then
    local payload = redis.call('HGET', body, e.member)
    -- mutant settled, and moved: if not payload then return nil end => payload = payload or '{}'
    if not payload then return nil end
    e.line = redis.call('HGET', meta, e.member)
    let_go({e.member})
    e.ticket, e.member = e.member, payload
  else
    -- mutant moved and still there
    redis.call('ZREM', e.key, e.member)
  end
  return true
end

local front, woken = {}, 0
local function moves_put_in(e, to, at, consumer)
  -- mutant another retry_count:
  --   then => then e.put = (e.put or e.member):gsub('"retry_count":0', '"retry_count":7')
  -- mutant another class:
  --   then => then e.put = (e.put or e.member):gsub('"class":"Task"', '"class":"Other"')
  if to == 'waiting' then
    local payload = e.put or e.member
    -- mutant requeued to the end: e.ticket => false
    if e.ticket then front[#front + 1] = {e.queue, payload} else jobs_append(e.queue, payload) end
    if e.queue == queue then woken = woken + 1 end
    return t_queue_ .. e.queue, payload
  elseif to == 'pending' then
    local r = record_unpack(e.line)
    e.there = (tickets(1) + 1) .. '-' .. caller
    r.receipt, r.consumer, r.op, r.since = e.there, consumer, caller, now
    hold(e.there, e.member, record_pack(r), string.format('%.0f', now + at))
  else
    e.at = seconds(at)
    e.there = into_set(e.key, e.at, e.member)
  end
end

local function moves_take_back(e, to, list, seen)
  if list then
    if not is_open(list) then return nil end
    -- mutant undone but not what was seen: out_of_list(list, e.put or e.member, seen) => nil
    return out_of_list(list, e.put or e.member, seen)
  elseif e.ticket then -- the ticket was made by that step
    -- mutant settled, and undone
    if not redis.call('HGET', body, e.there) then return nil end
    let_go({e.there})
    return true
  end
  if not is_open(e.key) then return nil end
  local score = redis.call('ZSCORE', e.key, e.there)
  -- mutant an older change undone over a newer one: or tonumber(score) ~= tonumber(e.at) =>
  if not score or tonumber(score) ~= tonumber(e.at) then return nil end -- another change moved it
  redis.call('ZREM', e.key, e.there)
  return true
end

local function moves_take_restored(e, list) return moves_take_back(e, 'restore', list, e.seen) end

local function moves_restorable(e, restored)
  if e.ticket then return not restored or can_wait(queue), 'invalid' end
  return is_open(e.key), 'invalid'
end

local function moves_put_back(e, restored)
  if e.ticket and restored then -- its holder is long gone
    redis.call('SADD', t_queues, queue)
    into_list_end(t_queue_ .. queue, e.member, jobs_taken_right())
    return t_queue_ .. queue, e.member
  elseif e.ticket then
    hold(e.ticket, e.member, e.line or record_pack(record_unpack(nil)), e.score)
  elseif is_list(e.key) then
    local name = e.key:sub(1, #t_queue_) == t_queue_ and e.key:sub(#t_queue_ + 1)
    if name then redis.call('SADD', t_queues, name) end
    if e.rank and not e.appended then
      -- mutant undo at the wrong place: e.left => nil
      into_list(e.key, e.member, e.left, jobs_taken_right())
    else
      into_list_end(e.key, e.member, jobs_taken_right())
    end
    return e.key, e.member
  else
    -- mutant undo forgets the score: e.score, e => 1, e
    e.at, e.there = e.score, into_set(e.key, e.score, e.member)
  end
end

-- Released jobs go in front, the one that was due first as the next.
local function moves_done()
  for i = #front, 1, -1 do jobs_prepend(front[i][1], front[i][2]) end
  if woken > 0 then wake_workers(woken) end
end
