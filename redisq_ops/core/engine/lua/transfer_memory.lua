-- How an entry that arrives again is recognised. A move or import has an operation: each entry's
-- result in a step is stored (`land_`), and repeated when the step is sent again. What comes from
-- another shard or a delay set has a mark: once accepted, it is in `seen` for the setting keep_ms.
-- A move's results are kept until the whole move is finished, because whoever resumes it asks for them.
-- Those of the step before expire from then on, and those of an import from the beginning.
-- KEYS: land_ op_ seen trash
-- USES: unfinished_operations config storage_stored_payload transfer_names

-- For each row the first word of its stored result, or that of its step (`*`); false if none.
local function transfer_memory_known(op, step, ids, marks)
  local known = {}
  if op == '' then
    for k, at in ipairs(redis.call('ZMSCORE', seen, unpack(marks))) do
      -- mutant what arrives is never known:
      --   at and tonumber(at) > now - config.keep_ms and 'same' => false
      known[k] = at and tonumber(at) > now - config.keep_ms and 'same'
    end
    return known
  end
  local had = redis.call('HMGET', land_ .. op .. ':' .. step, '*', unpack(ids))
  for k = 1, #ids do
    -- mutant landed twice: had[k + 1] or had[1] => had[1]
    -- mutant landed after the undo: or had[1] =>
    local result = had[k + 1] or had[1]
    known[k] = result and result:match('^%S+')
  end
  return known
end

-- `results`: id and result by turns.
local function transfer_memory_keep(op, step, keep_ms, results)
  local list = land_ .. op .. ':' .. step
  if #results > 0 then redis.call('HSET', list, unpack(results)) end
  if not op:find(TRANSFER_NAMES_MOVED) then
    redis.call('PEXPIRE', list, keep_ms)
    return
  end
  local before, its_ms = unpack(redis.call('HMGET', op_ .. op, 'landing', 'keep'))
  if before and before ~= step then
    unfinished_operations_expire(land_ .. op .. ':' .. before, its_ms)
  end
  redis.call('HSET', op_ .. op, 'landing', step, 'keep', keep_ms)
  redis.call('PERSIST', list)
  unfinished_operations_add(op)
end

-- Whether the entry with this id is only a copy in the trash, so that an arrival may replace it: a
-- finished move left it there (during the move it may be the only copy), or it has this `payload`, which
-- the row of a file gives. `by`: the operation that put the entry into its state.
local function transfer_memory_copy(id, by, payload)
  -- mutant landed on what is under way: or unfinished_operations_hold(by) =>
  if not redis.call('ZSCORE', trash, id) or unfinished_operations_hold(by) then return false end
  if payload then return storage_stored_payload(id) == payload end
  return by:find(TRANSFER_NAMES_MOVED)
end
