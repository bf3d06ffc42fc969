-- The ids of all entries, whatever their state, a little per call (the payloads stay where they are).
-- Who is there from the first call to the last is named at least once.
-- KEYS: body
-- ARGV: cursor max
-- USES: config
-- Returns the next cursor (0: that was all), then ids.
local page = redis.call('HSCAN', body, cursor, 'COUNT', max)
local said = {page[1]}
for i = 1, #page[2], 2 do said[#said + 1] = page[2][i] end
return said
