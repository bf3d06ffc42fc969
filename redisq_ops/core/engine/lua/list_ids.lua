-- The ids of all entries, whatever their state, a page per call. An entry that is in the queue from the
-- first call to the last is named at least once.
-- ARGV: cursor max
-- USES: storage_scan
-- Returns the next cursor (0: that was all), then ids.
local following, page = storage_scan(cursor, max)
local reply = {following}
for i = 1, #page, 2 do reply[#reply + 1] = page[i] end
return reply
