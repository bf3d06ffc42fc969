-- Settle deliveries, then take, in one call: a worker's usual exchange, for less than two calls cost.
-- Each part has a caller slot of its own and stores its reply as if it were called alone, so both are
-- safe to send again, together or apart.
-- PARTS: settle take
-- AHEAD: storage_fast_path
-- ARGV: caller seq consumer told take_caller take_seq n lease_ms
-- REST: outcome value delay
-- TYPES: once
-- RUN_BY: worker
-- FLAGS: allow-oom
-- Returns both replies. If the take fails, its error is in the place of its reply, and the settlements
-- stay.
local words = settle()
caller, seq = take_caller, take_seq
local sound, deliveries = pcall(take)
if not sound and type(deliveries) == 'string' then deliveries = {err = deliveries} end
return {words, deliveries}
