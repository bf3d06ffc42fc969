-- What a flush is to write: removals from and additions to the sorted sets of states, and records that
-- change or go. `write_buffer_retain` stores a record, or removes it if its entry only ever waited.
-- USES: record list_of
local write_buffer_drops, write_buffer_adds = {}, {}
local write_buffer_records, write_buffer_forgotten = {}, {}

local function write_buffer_add(zset, score, id)
  local list = list_of(write_buffer_adds, zset)
  local n = #list
  list[n + 1], list[n + 2] = score, id
end

local function write_buffer_record(id, line)
  local n = #write_buffer_records
  write_buffer_records[n + 1], write_buffer_records[n + 2] = id, line
end

local function write_buffer_retain(id, r)
  -- mutant records kept for ever: r.first == 0 and r.op == '-' => false
  if r.first == 0 and r.op == '-' then
    write_buffer_forgotten[#write_buffer_forgotten + 1] = id
  else
    write_buffer_record(id, record_pack(r))
  end
end
