-- Strike one of Sidekiq's processes from its register, if it has been silent for so long by the
-- server's clock: its record is renewed for a minute at each beat.
-- KEYS: t_processes
-- ARGV: caller seq identity silent_ms rescue side queue failed
-- REST: key
-- USES: guard burial
-- FLAGS: allow-oom
-- Rows: its record, the two hashes that may hold its work, its signals.
-- Returns pruned | alive | unknown.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller:match('^[^:]*')
if redis.call('SISMEMBER', t_processes, identity) == 0 then return remember({'unknown'}) end
local left = redis.call('PTTL', ARGV[first])
local silent = left >= 0 and 60000 - left or 60000
if silent < tonumber(silent_ms) then return remember({'alive'}) end
local back = 0
if rescue == '1' then
  for i = first + 1, first + 2 do
    for _, work in ipairs(redis.call('HVALS', ARGV[i])) do -- one per thread
      local told = read_record(work)
      if told and type(told.payload) == 'string' and type(told.queue) == 'string' and told.queue ~= ''
      then
        to_front(told.queue, told.payload)
        back = back + 1
      end
    end
  end
end
redis.call('SREM', t_processes, identity)
redis.call('UNLINK', unpack(ARGV, first))
note('op', table.concat({by, 'prune', back}, '|'))
write_history()
return remember({'pruned'})
