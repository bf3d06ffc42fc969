-- An entry that comes from elsewhere enters `state`, with the record `line` (empty: none). The
-- script's flush writes it. `from`: the state that it leaves, for `storage_moved`.
-- USES: transitions record state_zsets storage_moved write_buffer
local function transfer_enter(id, from, state, score, line)
  -- mutant dead ones arrive alive: state_zsets[state], => state_zsets.delayed,
  if state_zsets[state] then write_buffer_add(state_zsets[state], score, id) end
  -- mutant moved without its record: line ~= '' => false
  if line ~= '' then write_buffer_record(id, line) end
  if state == 'dead' or state == 'trash' then transitions_backdated = true end
  -- mutant moved and in no list: storage_moved => tostring
  -- mutant equal ones let in where it arrives: tonumber(score) - now => 0
  -- mutant attempts forgotten on the way: line => nil
  storage_moved(id, from, state, record_unpack(line), nil, tonumber(score) - now)
end
