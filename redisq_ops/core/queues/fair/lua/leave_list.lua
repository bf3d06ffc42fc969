-- Take ids from the front of a client's list. Holes in front are removed, `leave_list_budget` of them
-- at most in a call.
-- KEYS: c_ f_
-- USES: waiting_lists accounts type_check
local leave_list_budget = 500

-- The next `want` ids of a client; fewer if too many holes are in front of them, or if its list is a
-- key of another type: then the account is `astray`, and loses only its turn.
local function leave_list(a, want)
  local got = {}
  while #got < want and (leave_list_budget > 0 or a.holes == 0) do
    local most, list = want - #got, c_
    if a.packed > 0 then most, list = math.min(most, a.packed), f_ end
    local ids = redis.pcall('LPOP', list .. a.name, accounts_text[most])
    if ids and ids.err or not ids and type_check_mismatch(c_ .. a.name, 'list') then
      a.astray = waiting_lists_mismatch(a.name) or error(ids)
      break
    elseif not ids then -- the list was removed: correct the counts and go on
      local behind = a.packed > 0
      a.packed = 0
      waiting_lists_recount(a)
      a.waiting = a.waiting + #got
      if not behind then break end
    else
      -- mutant places moved
      a.head = a.head + #ids
      if a.packed > 0 then a.packed = a.packed - #ids end
      if a.holes == 0 and #got == 0 then
        got = ids
      else
        local names, marks = waiting_lists_marks(a, ids)
        leave_list_budget = leave_list_budget - waiting_lists_fill(a, names, marks)
        for i, id in ipairs(ids) do
          -- mutant purged ones delivered from their holes: not marks[i] => true
          if not marks[i] then got[#got + 1] = id end
        end
      end
    end
  end
  a.waiting = math.max(0, a.waiting - #got)
  return got
end
