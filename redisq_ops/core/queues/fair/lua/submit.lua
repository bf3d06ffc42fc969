-- Add entries of one client behind its waiting ones. An id that is here with another client or payload
-- is refused; each payload has its client's name in front. If the queue has a newer `layout` of
-- its shards than the caller, an id that isn't here is `elsewhere`, and nothing is done with it.
-- KEYS: body c_ holes trash
-- ARGV: caller seq client layout
-- REST: id payload
-- USES: idempotency transitions accounts bulk_write config counters history storage_prepare type_check
-- USES: registered
-- USES: waiting_lists max_waiting
-- TYPES: once
-- Returns one word per row, or one for all: ok | same | trash (the same, but purged) | exists |
-- elsewhere.
registered_check()
local reply = idempotency_replayed()
if reply then return reply end
if config.closed then return {err = 'CLOSED the queue is draining and takes no new entries'} end
local ids = {}
local rows, n = (#ARGV - first + 1) / width, 0
for k = 1, rows do ids[k] = ARGV[first + (k - 1) * width] end
history_by = caller:match('^[^:]*')
reply = {}
local newer = (tonumber(config.layout) or 0) > tonumber(layout)
local there = redis.call('HMGET', body, unpack(ids))
local put, fresh, contents = {}, {}, {}
for k = 1, rows do
  local id, content = ids[k], ARGV[first + (k - 1) * width + 1]
  local old = contents[id] or there[k]
  if old then
    -- mutant taken ids overwritten: old == content => true
    local purged = old == content and there[k] and redis.call('ZSCORE', trash, id)
    -- mutant taken ids overwritten: old == content => true
    reply[k] = purged and 'trash' or old == content and 'same' or 'exists'
  -- mutant an old layout is good enough: newer => false
  elseif newer then
    reply[k] = 'elsewhere'
  else
    reply[k] = 'ok'
    contents[id] = content
    n = n + 1
    fresh[n], put[2 * n - 1], put[2 * n] = id, id, content
    if history_all then history_note('submitted', id .. '|' .. client) end
  end
end
if #fresh > 0 then
  if config.max_waiting > 0 then
    local full = max_waiting_refusal(counters_known.waiting or 0, #fresh)
    if full then return full end
  end
  type_check_key(c_ .. client, 'list')
  local a = accounts_change(client)
  if a.holes > 0 then type_check_key(holes, 'hash') end
  storage_prepare()
  waiting_lists_add(a, fresh)
  bulk_write_fields(body, put)
  history_tally('i', #fresh)
end
transitions_flush()
return idempotency_remember_words(reply)
