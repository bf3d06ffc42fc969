-- Take out what a move brought in, unless it has changed since. `to`: first `trash`; from there `gone`,
-- once the entry is back in the queue it came from, or `back` to its state here, if that queue can't
-- restore it.
-- KEYS: land_
-- ARGV: caller seq op step from to
-- REST: id
-- USES: idempotency transitions unfinished_operations history audit_log record storage_placed
-- USES: storage_score transfer_names
-- ENTRIES: op_{op}=hash land_{op}:{step}=hash
-- FLAGS: allow-oom
-- Returns one word per row: moved | changed.
audit_log_check(op)
local reply = idempotency_replayed()
if reply then return reply end
history_by, reply = caller, {}
local list, marks = land_ .. op .. ':' .. step, {}
local words, ids, rest = redis.call('HMGET', list, unpack(ARGV, first)), {}, {}
for k = 1, #words do ids[k], words[k], rest[k] = storage_placed(ARGV[first + k - 1], words[k]) end
local function mark(k, word)
  marks[#marks + 1], marks[#marks + 2] = ARGV[first + k - 1], word .. rest[k]
end
for k, r in ipairs(record_read(ids)) do
  local id, put_away = ids[k], storage_score(ids[k], 'trash')
  reply[k] = 'changed'
  if words[k] == 'withdrawn' and put_away and transfer_names_away(r.op) then -- by an earlier step or run
    if to == 'gone' then
      transitions_move(id, 'trash', 'gone', 0, r)
    elseif to == 'back' then
      local is = r.reason ~= '-' and 'dead' or r.ready > now and 'delayed' or 'waiting'
      local at = is == 'delayed' and r.ready or now
      r.op, r.ready = op, 0
      transitions_move(id, 'trash', is, at, r)
      mark(k, 'ok')
    end
    reply[k] = 'moved'
  -- mutant withdrawn though touched: and r.op == op =>
  elseif words[k] == 'ok' and r.op == op and to == 'trash' then
    local at = from
    local score = storage_score(id, at)
    if not score and from == 'delayed' then
      at = 'waiting'
      score = storage_score(id, at)
    end
    if score then
      r.op = caller
      if from == 'delayed' then r.ready = tonumber(score) end
      transitions_move(id, at, 'trash', now, r)
      mark(k, 'withdrawn')
      reply[k] = 'moved'
    end
  end
end
transitions_check()
if #marks > 0 then
  redis.call('HSET', list, unpack(marks))
  unfinished_operations_add(op)
end
transitions_flush()
return idempotency_remember(reply)
