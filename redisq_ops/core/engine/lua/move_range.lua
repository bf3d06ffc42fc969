-- One step of an operator's bulk move of a whole state: the `n` entries behind the first `left` ones,
-- which couldn't be moved, as far as they have been in the state since before `high_water` (ms). The
-- score says since when; for entries that an undo or a rebalance put in with an old score, the record
-- does. From dead or trash to waiting, trash or gone.
-- The result is that of `move` with all ids of the state, at a third of the cost: strings are
-- expensive, so few are made. What the entries were goes to the undo list in one piece, which
-- `undo` recognizes by its leading blank. The history gets one event a second; the rest is written
-- with the `last` step, or with one that moves nothing.
-- KEYS: undo_ op_ stat meta
-- ARGV: caller seq from to high_water n left last
-- USES: idempotency transitions config corrupt_values counters history list_of record state_zsets
-- USES: storage_check_range storage_move_range type_check write_buffer
-- TYPES: first
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- FLAGS: allow-oom
-- Returns how many were moved, how many could not be (both 0: that was all), and how many all steps of
-- the operation moved. It moves nothing if the operation is being undone: a step may arrive after the
-- undo began.
local reply = idempotency_replayed()
-- mutant a front step done twice
if reply then return reply end
history_by = caller
local logged = redis.call('HMGET', op_ .. caller, 'undoing', 'done', 'told', 'verdict_ms')
corrupt_values_integer(logged[2], op_ .. caller, 'done')
-- mutant a step behind its operation's undo
if logged[1] then return {} end
if to == 'gone' then type_check_all() end -- a flush removes them from every key
local limit, back = tonumber(high_water), tonumber(redis.call('HGET', stat, 'put_back'))
-- mutant latecomers moved with their state: high_water => '+inf'
local range = {state_zsets[from], '-inf', high_water, 'BYSCORE', 'LIMIT', left, n, back and 'WITHSCORES'}
local rows, score_of, scores = redis.call('ZRANGE', unpack(range)), {}, {}
local chosen = back and {} or rows
if back then
  for i = 1, #rows, 2 do
    local id = rows[i]
    local since = back > limit and record_unpack(redis.call('HGET', meta, id)).since or 0
    -- mutant what an undo put back since moved with its state:
    --   (since <= limit or since > now) and =>
    chosen[#chosen + 1], score_of[id] = (since <= limit or since > now) and id, rows[i + 1]
  end
end
local ids, stuck = storage_move_range(chosen, from, to)
local moved, list, at = #ids, undo_ .. caller .. ':' .. seq, string.format('%.0f', now)
local enters = moved > 0 and state_zsets[to] and list_of(write_buffer_adds, state_zsets[to])
type_check_key(list, 'list')
storage_check_range()
transitions_check()
if moved > 0 then
  if to == 'gone' then
    write_buffer_forgotten = ids
    counters_add('gone', moved)
  else
    local lines, find, match = redis.call('HMGET', meta, unpack(ids)), string.find, string.match
    local r = record_unpack(nil)
    r.since, r.op = at, caller
    if to == 'waiting' then record_renew(r) end
    local new = record_pack(r)
    for k = 1, moved do
      local line, changed = lines[k], new
      if not line or line == '' or find(line, '\n', 1, true) then -- removed, or corrupt
        local was = record_unpack(nil)
        was.since = redis.call('ZSCORE', state_zsets[from], ids[k])
        line = record_pack(was)
      end
      if to ~= 'waiting' then
        local counts, who, why = match(line, '^%S+( %d+ %d+ %d+ )%d+( %S+ )%S+( %S+ %d+)$')
        if counts then changed = '-' .. counts .. at .. who .. caller .. why end
      end
      write_buffer_records[2 * k - 1], write_buffer_records[2 * k], lines[k] = ids[k], changed, line
      if enters then enters[2 * k - 1], enters[2 * k] = at, ids[k] end
    end
    if back then
      -- mutant undone twice, and dead since the first undo: scores[k] = score_of[ids[k]] =>
      for k = 1, moved do scores[k] = score_of[ids[k]] end
    end
    redis.call('RPUSH', list, ' ' .. from, table.concat(ids, ' '), table.concat(lines, '\n'),
      table.concat(scores, ' '))
    redis.call('PEXPIRE', list, config.trash_ms)
  end
  if stuck == 0 then -- the entries are adjacent
    -- mutant one too many leaves a whole state: moved - 1 => moved
    redis.call('ZREMRANGEBYRANK', state_zsets[from], left, left + moved - 1)
  else
    write_buffer_drops[state_zsets[from]] = ids
  end
end
local total = (logged[2] or 0) + moved
local done, unrecorded = string.format('%.0f', total), total - (tonumber(logged[3]) or 0)
local quiet_ms = math.abs(now - (tonumber(logged[4]) or 0))
redis.call('HSET', op_ .. caller, 'done', done, 'steps', seq)
if unrecorded > 0 and (last == '1' or moved + stuck == 0 or quiet_ms >= 1000) then
  history_note('op', table.concat({caller, from, to, unrecorded}, '|'))
  redis.call('HSET', op_ .. caller, 'told', done, 'verdict_ms', now)
end
if not logged[2] then redis.call('PEXPIRE', op_ .. caller, 2592000000) end -- nobody wrote it down
transitions_flush()
return idempotency_remember({tostring(moved), tostring(stuck), done})
