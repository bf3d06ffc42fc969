-- The interface `moves`: the hooks that `move` and `undo` call for entries of another program. Each kind
-- whose entries can be changed implements them in `lua/moves.lua` of its folder (header: IMPLEMENTS).
-- A hook without a default is required. An entry `e` is a table; packed, it is kept in the trash and in
-- the undo list, so a hook can add to it what a later hook needs. `move` sets
--   id      its id here                       key     the list or sorted set it was read from
--   member  its exact bytes there             seen    its position from the left, or its score
--   stamp   what the kind's `stamp` returned  queue   the owner's queue it goes to, '' if not known
--   put     bytes to write in place of its own; nil: its own
--   shown   what the trash shows of it; nil: `member`
--   label   its name in the trash, if it comes from there
--   orphan  not nil: only its id is left, and `orphans` handles it in place of these hooks
-- `moves_take_out` may set `e.shown`. Hooks may set `e.rank`: an undo puts the entries of a step back in
-- the order of their ranks (default: the order of the rows). `element` takes an element out of its list
-- or set, and puts it back.
-- INTERFACE: moves

-- moves_fit(e, to): called for all entries of a step before anything is written. Fails the call if a key
-- that will be written is of another type. `to` is nil for an undo.

-- moves_take_out(e, to): removes the entry from where it was read, if it is the one that was read. `to`:
-- waiting, pending, delayed, trash or gone; for the last two the owner's keys of the entry go, too.
-- Returns true; or nil, and a word why not. `e.dry`: check only, write nothing.

-- moves_put_in(e, to, at, consumer): puts the entry where `to` says. `at`: the time (ms) of delayed, the
-- lease (ms) of pending. Returns the list it went to and its bytes there; nil if it isn't in a list.

-- moves_take_back(e, to, list, seen): the reverse of `moves_put_in`, if nobody has touched the entry
-- since. `list`: the list it went to, nil if none; `seen`: its present position there. Returns true; or
-- nil, and `deep` or `unsure` if it may still be there.

-- moves_take_restored(e, list): the same for an entry that an operator restored from the trash. Here
-- `e.seen` is its present position in the list.
-- USES: moves_take_out
local function moves_take_restored(e) return moves_take_out(e, 'trash') end

-- moves_restorable(e, restored): whether `moves_put_back` can put it back: the id is free, and its
-- record would not have expired; else perhaps also a word that says why not. Reads only.

-- moves_put_back(e, restored): puts it back exactly as it was before `moves_take_out`. `restored`:
-- an operator restores it from the trash, else it is an undo. Returns what `moves_put_in` returns.

-- moves_renamed(key, named): the present name of a list that its owner renames, and which names are in
-- use now, as any value. `named`: that value when `key` was the name; nil: `key` is the present name.
local function moves_renamed(key) return key end

-- moves_lacks_record(e): whether the owner's record of an id is gone, and nobody is about to write it;
-- nil, and `busy` if a worker may still be at it.
local function moves_lacks_record() return false end

-- moves_done(): called once, when all entries of a step are in their new places.
local function moves_done() end
