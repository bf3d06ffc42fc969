-- What handlers returned: `result` id -> bytes, `result_at` id -> when. A result goes `keep_ms` later:
-- each call that keeps some removes up to twice as many old ones, and the sweep removes the rest. It
-- also goes when a later run of its id ends without one.
-- Whoever waits for an entry is told of its end on the channel `<key of result>:<id>`; a message is a
-- hint, the keys are the truth.
-- KEYS: result result_at
-- USES: bulk_write config list_append type_check
local results_values, results_times, results_ended = {}, {}, {}
local results_old = {} -- ids that ended without a result

local function results_keep(id, value)
  local n = #results_values
  results_values[n + 1], results_values[n + 2] = id, value
  results_times[n + 1], results_times[n + 2] = now_text, id
  results_ended[#results_ended + 1] = id
end

-- Entries ended without a result.
local function results_none(ids) list_append(results_old, ids) end

-- An entry became dead.
local function results_dead(id) results_ended[#results_ended + 1] = id end

local function results_check()
  if #results_old > 0 and redis.call('EXISTS', result) == 0 then results_old = {} end
  if #results_values + #results_old == 0 then return end
  type_check_key(result, 'hash')
  type_check_key(result_at, 'zset')
end

-- Returns how many were removed.
local function results_retire(max)
  local old = redis.call('ZRANGE', result_at, '-inf', now - config.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  if #old > 0 then
    -- mutant results kept for ever
    redis.call('HDEL', result, unpack(old))
    redis.call('ZREM', result_at, unpack(old))
  end
  return #old
end

local function results_flush()
  if #results_old > 0 then
    redis.call('HDEL', result, unpack(results_old))
    redis.call('ZREM', result_at, unpack(results_old))
    results_old = {}
  end
  local n = #results_values / 2
  if n > 0 then
    results_retire(2 * n)
    bulk_write_fields(result, results_values)
    bulk_write_scores(result_at, results_times)
    results_values, results_times = {}, {}
  end
  for i = 1, #results_ended do redis.pcall('PUBLISH', result .. ':' .. results_ended[i], '') end
  results_ended = {}
end
