-- An entry that comes from elsewhere enters `state`, with the record `line` (empty: none). The
-- script's flush writes it. `from`: the state that it leaves, for `storage_moved`.
-- USES: transitions record state_zsets storage_moved write_buffer
local function transfer_enter(id, from, state, score, line)
  if state_zsets[state] then write_buffer_add(state_zsets[state], score, id) end
  if line ~= '' then write_buffer_record(id, line) end
  if state == 'dead' or state == 'trash' then transitions_backdated = true end
  storage_moved(id, from, state, record_unpack(line), nil, tonumber(score) - now)
end
