-- Take in entries that a move brings from another queue, each once: the result of each entry in this
-- step is stored, and repeated when the step is sent again. An id that is here already stays as it is,
-- unless it is only what a move from here left in the trash, and that move has ended (`past` names
-- those that are known to have): before, it may be the only copy. `state`: the state it goes to, `-` if
-- the caller knows that the id is taken.
-- KEYS: land_ op_ trash err
-- ARGV: op step keep_ms layout past
-- REST: id state score record payload error following
-- USES: transitions keep_transfer_results config history operation_journal record storage_check_arrival
-- USES: storage_follow storage_here storage_place storage_refuses storage_waiting_count transfer_names
-- ENTRIES: op_{op}=hash land_{op}:{step}=hash
-- Returns one word per row: ok | exists | full | closed | cancelled (undone before it came) | elsewhere
-- (the caller's layout of the shards is out of date), or the name of the move whose copy is in the way:
-- then nothing was decided yet.
operation_journal_check(op)
local list, ids = land_ .. op .. ':' .. step, {}
for i = first, #ARGV, width do ids[#ids + 1] = ARGV[i] end
local function field(k, n) return ARGV[first + (k - 1) * width + n] end
local function own(k) return field(k, 6):sub(2) end
history_by = op
local reply, marks, chosen, live = {}, {}, {}, 0
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local had = redis.call('HMGET', list, '*', unpack(ids))
local lines, there, cleared = record_read(ids), storage_waiting_count(), false
for k, id in ipairs(ids) do
  local state = field(k, 1)
  local word = had[k + 1] or had[1] or newer and 'elsewhere'
  if not word then
    local is = storage_here(id)
    local left = is and lines[k].op:find(TRANSFER_NAMES_MOVED) and redis.call('ZSCORE', trash, id)
    local over = left and (' ' .. past .. ' '):find(' ' .. lines[k].op .. ' ', 1, true)
    if state == '-' or is and not left then
      word = 'exists'
    elseif config.closed or storage_refuses(own(k), state) then
      word = 'closed'
    elseif state ~= 'dead' and config.max_waiting > 0 and there >= config.max_waiting then
      word = 'full'
    elseif left and not over then
      word = lines[k].op
    else
      word = 'ok'
      chosen[#chosen + 1] = k
      if left then
        transitions_move(id, 'trash', 'gone', 0, lines[k])
        cleared = true
      end
      if state ~= 'dead' then there, live = there + 1, live + 1 end
    end
    if word ~= lines[k].op and word ~= 'ok' then marks[#marks + 1], marks[#marks + 2] = id, word end
  end
  reply[k] = word:match('^%S+')
end
for _, k in ipairs(chosen) do storage_check_arrival(field(k, 4), own(k)) end
if cleared then transitions_flush() end
for _, k in ipairs(chosen) do
  local id, mark = storage_place(ids[k], field(k, 4), own(k))
  marks[#marks + 1], marks[#marks + 2] = ids[k], mark
  if field(k, 5) ~= '' then redis.call('HSET', err, id, field(k, 5)) end
  if own(k) ~= '' then storage_follow(id, own(k)) end
  local r = record_unpack(field(k, 3))
  r.op, r.ready = op, 0
  transitions_move(id, 'dead', field(k, 1), field(k, 2), r) -- from dead: behind what waits
end
if #chosen > 0 then
  redis.call('HINCRBY', op_ .. op, 'done', #chosen)
  history_note('op', table.concat({op, 'move', ARGV[first + 1], #chosen}, '|'))
  history_tally('i', live)
end
if #marks > 0 then
  redis.call('HSET', list, unpack(marks))
  keep_transfer_results(op, step, keep_ms)
end
transitions_flush()
return reply
