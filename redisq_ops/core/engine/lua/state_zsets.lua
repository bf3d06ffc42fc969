-- The sorted set of each state: id -> ms (pending: deadline, delayed: ready time, dead and trash: when
-- the entry entered the state). `waiting` has one only where the kind keeps waiting entries in a sorted
-- set.
-- KEYS: lease delay dead trash
-- USES: storage_waiting_zset
local state_zsets = {pending = lease, delayed = delay, dead = dead, trash = trash,
  waiting = storage_waiting_zset}
