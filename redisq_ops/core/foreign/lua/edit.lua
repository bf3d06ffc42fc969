-- One step of an edit of entries of another program. Python has just located each entry, and made the
-- bytes that its owner would have written for other arguments; they are written if the entry is still
-- the one that was read. `why`: a word for an entry that isn't edited, else empty. `kind` to `put`: see
-- `edited`. `parts`: the five values of each part, each behind its length and a colon.
-- KEYS: undo_ op_
-- ARGV: caller seq from queue
-- REST: id why kind key member seen stamp put parts
-- REPLACES: edit
-- USES: idempotency config history audit_log edited moves_fit moves_take_out step_rows
-- ENTRIES: op_{caller}=hash undo_{caller}:{seq}=list
-- Returns one word per row: moved | changed, or another word why not.
audit_log_check(caller)
local reply = idempotency_replayed()
if reply then return reply end

local function parts_of(text)
  local parts, part, at = {}, {}, 1
  while at <= #text do
    local length, begin = text:match('^(%d+):()', at)
    part[#part + 1] = text:sub(begin, begin + length - 1)
    at = begin + length
    if #part == 5 then parts[#parts + 1], part = part, {} end
  end
  return parts
end

local entries, before = {}, {}
for i = first, #ARGV, width do
  local e = {id = ARGV[i], kind = ARGV[i + 2], key = ARGV[i + 3], member = ARGV[i + 4],
    seen = ARGV[i + 5], stamp = ARGV[i + 6], put = ARGV[i + 7], parts = parts_of(ARGV[i + 8])}
  if ARGV[i + 1] == '' then
    moves_fit(e, 'edit')
    edited_fit(e)
  end
  entries[#entries + 1] = {e, ARGV[i + 1]}
end
reply = {}
for k, entry in ipairs(entries) do
  local e, why = unpack(entry)
  if why == '' then
    e.dry = true
    local ok, refused = moves_take_out(e, 'edit')
    -- mutant another's entry edited: ok and edited_holds(e) => edited_holds(e)
    why = ok and edited_holds(e) and 'moved' or refused or 'changed'
  end
  reply[k] = why
  if why == 'moved' then
    local row = edited_write(e)
    before[#before + 1] = step_rows_pack('edit', row, e.kind == 'list' and e.key, e.put)
  end
end
if #before > 0 then
  local list = undo_ .. caller .. ':' .. seq
  redis.call('RPUSH', list, unpack(before))
  redis.call('PEXPIRE', list, config.trash_ms)
  redis.call('HINCRBY', op_ .. caller, 'done', #before)
  history_by = caller
  history_note('op', table.concat({caller, from, 'edit', #before}, '|'))
end
redis.call('HSET', op_ .. caller, 'steps', seq)
redis.call('PEXPIRE', op_ .. caller, 2592000000)
history_write()
return idempotency_remember(reply)
