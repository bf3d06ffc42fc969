-- Put ids in, each with a payload or none (empty). An id that waits is `queued`: the latest payload
-- counts. One that is delivered runs `again` after that; where each push is a run, every id that is
-- here does. A dead or purged one is `new`: a push is a fresh start. If the queue has a newer `layout`
-- of its shards than the caller, an id that isn't here is `elsewhere`, and nothing is done with it.
-- KEYS: body meta again
-- ARGV: caller seq layout
-- REST: id payload
-- USES: idempotency transitions bulk_write config elements history list_changes record state registered
-- USES: write_buffer max_waiting
-- TYPES: once
-- CHECKS: queue spent again
-- Returns one word per row, or one for all: new | queued | again | elsewhere.
registered_check()
local reply = idempotency_replayed()
if reply then return reply end
if config.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
history_by = caller:match('^[^:]*')
reply = {}
local ids, contents = {}, {}
local rows = (#ARGV - first + 1) / width
for k = 1, rows do ids[k], contents[k] = ARGV[first + 2 * k - 2], ARGV[first + 2 * k - 1] end
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local had, some = redis.call('HMGET', body, unpack(ids)), false
for k = 1, rows do some = some or had[k] end
local lines = some and redis.call('HMGET', meta, unpack(ids)) or {}
local bodies, runs, owing, met, touched = {}, {}, {}, {}, {}
local fresh, come, n = 0, 0, 0
for k = 1, rows do
  local id = ids[k]
  local state = met[id] or had[k] and state_of(id, lines[k])
  local content = contents[k]
  local word = 'new'
  -- mutant pushed between two shards: state == 'transit' => false
  -- mutant pushed by an old layout: newer and not state => false
  if state == 'transit' or newer and not state then
    word = 'elsewhere'
  -- mutant a dead id can't be pushed: 'dead' or state == 'trash' => 'trash'
  elseif not state or state == 'dead' or state == 'trash' then
    if state then
      transitions_move(id, state, 'waiting', now, record_unpack(nil))
      if not elements_each then runs[#runs + 1] = id end
    else
      list_changes_enter(id)
      list_changes_woken = list_changes_woken + 1
    end
    met[id] = 'waiting'
    fresh = fresh + 1
  elseif elements_each then
    word = 'again'
    owing[#owing + 1] = id
  elseif state == 'pending' then
    word = 'again'
    if not met[id] and not state_next_run(id) then come = come + 1 end
    met[id] = 'pending'
    touched[#touched + 1], touched[#touched + 2] = id, content
  else
    word = 'queued'
    runs[#runs + 1] = id -- it begins after this push, so no run has to follow
    local r = record_unpack(lines[k])
    -- mutant a push undone: not met[id] => false
    if not met[id] and (r.op ~= '-' or r.lost > 0) then -- changed: an operator's undo leaves it alone
      r.op, r.lost = '-', 0 -- this push's run has lost no lease
      write_buffer_retain(id, r)
    end
    met[id] = state
  end
  if word == 'new' or word == 'queued' then
    bodies[n + 1], bodies[n + 2], n = id, content, n + 2
  end
  if history_all and word ~= 'elsewhere' then history_note('submitted', id) end
  reply[k] = word
end
if fresh > 0 and config.max_waiting > 0 then
  local full = max_waiting_refusal(elements_waiting(), fresh)
  if full then return full end
end
transitions_check()
if n > 0 then bulk_write_fields(body, bodies) end
-- mutant a push of what waits runs it twice: 0 and => 999 and
if #runs > 0 and state_follows ~= false then redis.call('HDEL', again, unpack(runs)) end
-- mutant pushed while worked on, and forgotten: 0 then => 999 then
if #touched > 0 then redis.call('HSET', again, unpack(touched)) end
for _, id in ipairs(owing) do state_run_again(id, 1) end
history_tally('i', fresh + come + #owing)
transitions_flush()
return idempotency_remember_words(reply)
