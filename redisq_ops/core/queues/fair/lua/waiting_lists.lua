-- The lists of waiting ids. An entry that leaves its list otherwise than by its turn leaves a hole: its
-- id stays there, and `client/id` in `holes` is 0 (if it comes back, it has its place again) or 1 (it
-- has ended, the hole is spent). Holes are removed when a turn meets them, spent ones also when the
-- list is packed: its front part is then f_<client>, `packed` ids long, the rest c_<client>.
-- `head` is the absolute position of the first id, so a cursor stays exact under pushes and pops, and
-- repeats rather than skips while a list is packed.
-- KEYS: holes c_ f_
-- USES: type_check

-- An error if a key of a client's list has another type, else false. Called before they are written.
local unfit_is = {}
local function waiting_lists_mismatch(name)
  if unfit_is[name] == nil then
    unfit_is[name] = type_check_mismatch(c_ .. name, 'list')
      or type_check_mismatch(f_ .. name, 'list') or false
  end
  return unfit_is[name]
end

-- Remove holes (names and marks as in `holes`; a mark may be absent). Returns how many there were.
local function waiting_lists_fill(a, names, marks)
  local filled = {}
  for i, mark in ipairs(marks) do
    if mark then
      filled[#filled + 1] = names[i]
      if mark == '1' then a.spent = math.max(0, a.spent - 1) end
    end
  end
  if #filled > 0 then redis.call('HDEL', holes, unpack(filled)) end
  a.holes = math.max(0, a.holes - #filled)
  return #filled
end

-- The names that ids have in `holes`, and their marks.
local function waiting_lists_marks(a, ids)
  local names = {}
  for i, id in ipairs(ids) do names[i] = a.name .. '/' .. id end
  return names, redis.call('HMGET', holes, unpack(names))
end

-- Put ids into a client's list in their order; an id that left a hole there fills it.
local function waiting_lists_add(a, ids, front)
  local fresh = ids
  if a.holes > 0 then
    fresh = {}
    local names, marks = waiting_lists_marks(a, ids)
    waiting_lists_fill(a, names, marks)
    for i, id in ipairs(ids) do
      -- mutant two places for one entry: not marks[i] => true
      if not marks[i] then fresh[#fresh + 1] = id end
    end
  end
  if #fresh > 0 and front then
    local n, reversed = #fresh, {}
    -- mutant what comes back comes backwards: n + 1 - =>
    for i, id in ipairs(fresh) do reversed[n + 1 - i] = id end
    redis.call('LPUSH', (a.packed > 0 and f_ or c_) .. a.name, unpack(reversed))
    a.head = a.head - n
    if a.packed > 0 then a.packed = a.packed + n end
  elseif #fresh > 0 then
    redis.call('RPUSH', c_ .. a.name, unpack(fresh))
  end
  a.waiting = a.waiting + #ids
end

-- Correct the counts of a list that isn't packed, after another program has changed it.
local function waiting_lists_recount(a)
  local length = redis.call('LLEN', c_ .. a.name)
  if a.waiting + a.holes == length then return end
  a.holes = math.min(a.holes, length)
  a.spent, a.waiting = math.min(a.spent, a.holes), length - a.holes
end
