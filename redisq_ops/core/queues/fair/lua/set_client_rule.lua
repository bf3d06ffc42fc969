-- Change how a client is served: its weight, its cap of pending entries (0: none), its rate (entries per
-- hour, 0: none), whether it is blocked. `was`: change it only if it has this value now; '': in any
-- case.
-- KEYS: accounts body
-- ARGV: caller seq rule client value was
-- USES: idempotency transitions accounts client_rates config history registered
-- FLAGS: allow-oom
-- Returns the word `ok`, `same` or `changed` (it isn't what it `was`), and the value before.
registered_check()
local reply = idempotency_replayed()
-- mutant a rule changed twice
if reply then return reply end
history_by = caller
local a = accounts_parse(client, redis.call('HGET', accounts, client))
local before = tostring(a[rule])
-- mutant known clients keep their rules in a shard that is given up: a.new and =>
-- mutant new clients get no rules in a shard that lives: config.retired => true
-- mutant new clients get no rules in a shard that isn't empty yet:
--   and redis.call('EXISTS', body) == 0 =>
if a.new and config.retired and redis.call('EXISTS', body) == 0 then
  return {'same', before} -- a shard that is given up, and may be cleared by now: create nothing there
end
-- mutant a rule that isn't kept
accounts_touched[client] = a
-- mutant a rule's change that is new each time: before == value and 'same' or =>
local word = before == value and 'same' or 'ok'
if word == 'ok' and was ~= '' and before ~= was then word = 'changed' end
if word == 'ok' then
  -- mutant a rule that isn't changed: tonumber(value) => a[rule]
  -- mutant a rule kept as text: tonumber(value) => value
  a[rule] = tonumber(value)
  -- mutant a new rate counts from the next entry on: rule == 'rate' => false
  if rule == 'rate' then client_rates_rest(a) end
  history_note('op', table.concat({caller, rule, client, value}, '|'))
end
transitions_flush()
return idempotency_remember({word, before})
