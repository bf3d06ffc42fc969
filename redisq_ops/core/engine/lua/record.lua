-- The record of an entry that was delivered or changed at least once, one line of words: receipt
-- failures lost first-delivery-ms since-ms consumer operation reason ready-ms. An entry that only ever
-- waited has none; a corrupt record counts as none.
-- `since`: when the entry entered its present state. `first`: RECORD_REPLAYED if it was delivered
-- before a replay, and not since.
-- KEYS: meta
local RECORD_REPLAYED = 1

-- A record's line as a table; that of an entry without a record if the line is nil, false or corrupt.
local function record_unpack(line)
  local receipt, failures, lost, began, since, consumer, op, reason, ready
  if line then
    receipt, failures, lost, began, since, consumer, op, reason, ready =
      line:match('^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+)$')
  end
  if not receipt then
    return {receipt = '-', failures = 0, lost = 0, first = 0, since = 0, consumer = '-', op = '-',
      reason = '-', ready = 0}
  end
  return {receipt = receipt, failures = tonumber(failures), lost = tonumber(lost),
    first = tonumber(began), since = tonumber(since), consumer = consumer, op = op,
    reason = reason, ready = tonumber(ready)}
end

local function record_pack(r)
  return table.concat({r.receipt, r.failures, r.lost, r.first, r.since, r.consumer, r.op,
    r.reason, string.format('%.0f', r.ready)}, ' ')
end

-- How attempts count is said in the next three functions, and nowhere else. `what` ended one: a failure
-- (`failures`) or a lease that expired (`lost`). Returns whether the entry had as many as it may have.
local function record_spend(r, what, most)
  -- mutant attempts not counted
  r[what] = r[what] + 1
  return r[what] >= most
end

-- How many attempts have ended.
local function record_attempts(r)
  return r.failures + r.lost
end

-- As new: a replay begins at the first attempt.
local function record_renew(r)
  -- mutant attempts kept by a replay: 0, 0 => 1, 0
  r.failures, r.lost = 0, 0
  -- mutant delivered before a replay, and forgotten: RECORD_REPLAYED => 0
  r.first, r.consumer, r.reason = RECORD_REPLAYED, '-', '-'
end

-- The record of a first delivery, without the receipt in front; most entries never have another one.
local function record_first_line(consumer)
  return table.concat({' 0 0', now_text, now_text, consumer, '- - '}, ' ')
end

-- Where words of a line end: receipt, lost, first, since, consumer. It looks for blanks and makes no
-- strings, in a third of the time that unpacking takes. The last result is nil for a corrupt line.
local function record_ends(line)
  local find = string.find
  local a = find(line, ' ', 1, true) or #line
  local c = find(line, ' ', (find(line, ' ', a + 1, true) or #line) + 1, true) or #line
  local d = find(line, ' ', c + 1, true) or #line
  local e = find(line, ' ', d + 1, true) or #line
  return a, c, d, e, find(line, ' ', e + 1, true)
end

-- The records of some entries, in their order.
local function record_read(ids)
  local found = #ids > 0 and redis.call('HMGET', meta, unpack(ids)) or {}
  for i = 1, #ids do found[i] = record_unpack(found[i]) end
  return found
end
