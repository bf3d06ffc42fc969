-- The ids of all messages, a little per call: those in Carmine's sight, then (cursors that begin with b)
-- those out of it. Who is there from the first call to the last is named at least once, unless it went
-- back into sight meanwhile: `shown` counts these.
-- KEYS: messages body
-- ARGV: cursor max
-- USES: config
-- Returns the next cursor (0: that was all), then ids.
local hidden = cursor:match('^b(%d+)$')
local page = redis.call('HSCAN', hidden and body or messages, hidden or cursor, 'COUNT', max)
local after = page[1]
if not hidden and after == '0' then
  after = 'b0'
elseif hidden and after ~= '0' then
  after = 'b' .. after
end
local said = {after}
for i = 1, #page[2], 2 do said[#said + 1] = page[2][i] end
return said
