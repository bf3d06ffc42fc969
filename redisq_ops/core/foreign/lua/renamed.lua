-- Entries of lists that their owner renames: `e.key`, kept with what `moves_renamed` said, and the same
-- list's present name once the entry is read again.
-- USES: moves_renamed
local function renamed_kept(e)
  local _
  if e.key then _, e.named = moves_renamed(e.key) end
  return e
end

local function renamed_now(e)
  -- mutant renamed unseen: if e.key then => if false then
  if e.key then e.key = moves_renamed(e.key, e.named) end
  return e
end
