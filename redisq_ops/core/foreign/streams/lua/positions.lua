-- Where the consumer groups of a stream are.
-- KEYS: stream
local function positions_read()
  local found = {}
  for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local facts = {}
    for i = 1, #row, 2 do facts[row[i]] = row[i + 1] end
    found[facts.name] = {last = facts['last-delivered-id'], pending = facts.pending,
      consumers = facts.consumers}
  end
  return found
end

-- Whether an id comes before another. Both halves are numbers of 64 bits, which Lua can't hold: compared
-- as texts, the longer one is greater.
local function positions_before(id, other)
  local ms, seq = id:match('^(%d+)-(%d+)$')
  local other_ms, other_seq = other:match('^(%d+)-(%d+)$')
  -- mutant ids compared as texts: #a < #b or #a == #b and =>
  local function less(a, b) return #a < #b or #a == #b and a < b end
  return less(ms, other_ms) or ms == other_ms and less(seq, other_seq)
end
