-- What a kind writes: the hooks that `move` and `undo` call. Each kind that can change entries has an
-- `owner` of its own in its folder, with all of these. An entry `e` is a table that is kept, packed, in
-- the trash and the undo list; hooks add to it what they need later. It has
--   id      what it is called here           key     the list or set it was seen in
--   member  its exact bytes there            seen    its position from the left, or its score
--   stamp   tells it from a later one of its id: the kind's own, see `stamps` in Python
-- `owner_fit` is called for all entries of a step before anything is written.

-- The call fails if a key that will be written for the entry is of another type (`must_be`).
local function owner_fit(e) end

-- Out of its place, if it is the one that was seen: true; or nil, and a word why not. `to`: waiting,
-- delayed, trash or gone (for these two the owner's keys of it go, too).
local function owner_take_out(e, to) return nil, 'invalid' end

-- To where it goes on: it waits, or is delayed until `at` (ms).
local function owner_put_in(e, to, at) end

-- Out of where `owner_put_in` put it, if nobody touched it since: true; or nil, and `deep` if it may be
-- there still. What was put in last is asked for first.
local function owner_take_back(e) return nil end

-- Whether `owner_put_back` can: the id is free, and what was kept hasn't expired. Reads only.
local function owner_restorable(e) return false end

-- Exactly where and as it was before `owner_take_out`.
local function owner_put_back(e) end

-- What the trash shows of it: text.
local function owner_shown(e) return '' end
