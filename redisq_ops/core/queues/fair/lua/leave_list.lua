-- Leaving a list by one's turn. Holes in front are met and gone, so many at most in a call.
-- USES: waiting_lists
local hole_budget = 500

-- The next `want` ids of a client whose turn it is; fewer when too many holes are in front of them, or
-- when its list is a key of another type: then it is `astray`, and loses nothing but its turn.
local function leave_list(a, want)
  local got = {}
  while #got < want and (hole_budget > 0 or a.holes == 0) do
    local most, list = want - #got, c_
    if a.packed > 0 then most, list = math.min(most, a.packed), f_ end
    local ids = redis.pcall('LPOP', list .. a.name, text[most])
    if ids and ids.err or not ids and misfit(c_ .. a.name, 'list') then
      a.astray = unfit(a.name) or error(ids)
      break
    elseif not ids then -- removed by hand: what isn't there can't hold up the others
      local behind = a.packed > 0
      a.packed = 0
      heed(a)
      a.waiting = a.waiting + #got
      if not behind then break end
    else
      a.head = a.head + #ids
      if a.packed > 0 then a.packed = a.packed - #ids end
      if a.holes == 0 and #got == 0 then
        got = ids
      else
        local names, marks = marked(a, ids)
        hole_budget = hole_budget - fill(a, names, marks)
        for i, id in ipairs(ids) do
          if not marks[i] then got[#got + 1] = id end
        end
      end
    end
  end
  a.waiting = math.max(0, a.waiting - #got)
  return got
end
