-- What a step of a move to another queue took out: each entry as it was before, with all that is stored
-- of it. A row whose entry isn't in the trash under this operation any more has only its id, and `back`
-- as its score if it was put back. `brief`: 1 to leave out payloads, errors and what follows.
-- KEYS: undo_ err trash
-- ARGV: op step start brief
-- USES: record config storage_following storage_stored_payload
-- FLAGS: no-writes allow-oom
-- Returns where the next rows begin (0: that was all), how long all this is kept (ms, in full hours),
-- then as many rows as fit a call: id state score record payload error following (after a plus).
local list = undo_ .. op .. ':' .. step
local rows, ids = redis.call('LRANGE', list, start, start + 99), {}
for k, row in ipairs(rows) do ids[k] = row:match('^%S+') end
if #ids == 0 then return {'0', '0'} end
local found, scores = record_read(ids), redis.call('ZMSCORE', trash, unpack(ids))
local long = brief ~= '1'
local errors = long and redis.call('HMGET', err, unpack(ids)) or {}
local runs = long and storage_following(ids) or {}
local left = redis.call('PTTL', list)
local hours = math.ceil((left < 0 and config.trash_ms or left) / 3600000)
local reply, size, seen = {'', string.format('%d', hours * 3600000)}, 0, 0
local function add(...)
  for _, word in ipairs({...}) do reply[#reply + 1] = word end
end
for k, row in ipairs(rows) do
  if row == ids[k] then
    add(row, '', 'back', '', '', '', '')
  elseif scores[k] and found[k].op == op then
    local state, score, line = row:match('^%S+ (%S+) (%S+) (.+)$')
    local content, failure = long and storage_stored_payload(ids[k]) or '', errors[k] or ''
    add(ids[k], state, score, line, content, failure, runs[k] and '+' .. runs[k] or '')
    size = size + #content + #failure
  else
    add(ids[k], '', '', '', '', '', '')
  end
  seen = k
  if size > 262144 then break end
end
local more = seen < #rows or #rows == 100
reply[1] = more and string.format('%d', start + seen) or '0'
return reply
