-- Which clients are served next, as if entries were taken one by one. Clients at their cap and blocked
-- ones are not in the ring.
-- KEYS: ring
-- USES: leave_list client_ring client_rates accounts
local TURN = 27720 -- virtual time of an entry at weight 1; weights 1 to 12 divide it

-- Accounts in the order they are served, n at most, each with how many entries it gets (`want`), and
-- the virtual time at which the last of them had its turn. `names`: the beginning of the ring, if it
-- was read.
local function turns(n, names)
  names = names or redis.call('ZRANGE', ring, '0', n - 1)
  local line, first_in, last_in = {}, 1, 0 -- `line` goes from first_in to last_in
  local order, start, turned = {}, 0, 0
  accounts_load(names)
  for _, name in ipairs(names) do
    local a = accounts_known[name]
    if accounts_servable(a) and not a.astray then
      last_in = last_in + 1
      -- mutant weights ignored: math.floor(TURN / a.weight) => TURN
      line[last_in], a.want, a.cost = a, 0, math.floor(TURN / a.weight)
      -- mutant a cap within a batch: math.min(a.waiting, a.cap - a.pending) => a.waiting
      a.most = a.cap > 0 and math.min(a.waiting, a.cap - a.pending) or a.waiting
      -- mutant a rate within a batch: a.rate > 0 => false
      if a.rate > 0 then a.most = math.min(a.most, math.max(1, client_rates_left(a))) end
    elseif not a.astray then -- its account is gone
      redis.call('ZREM', ring, name)
    end
  end
  while turned < n and first_in <= last_in do
    local a = line[first_in]
    first_in, start = first_in + 1, a.vt
    turned = turned + 1
    order[turned] = a
    -- mutant turns not counted: vt + a.cost => vt
    a.want, a.vt = a.want + 1, a.vt + a.cost
    if a.want < a.most then
      local at = last_in
      while at >= first_in
        -- mutant equals in the order of chance:
        --   line[at].vt == a.vt and line[at].name > a.name => false
        and (line[at].vt > a.vt or line[at].vt == a.vt and line[at].name > a.name) do
        line[at + 1] = line[at]
        at = at - 1
      end
      line[at + 1] = a
      last_in = last_in + 1
    end
  end
  return order, start
end

-- The ids of up to n turns, their clients, the latest virtual time that one of them comes to, and that
-- of the last turn. A client that is astray gets its next turn after all others.
local function select_clients(n, names)
  local ids, whose, latest, start, have = {}, {}, 0, 0, 0
  for round = 100, 0, -1 do
    local order, at = turns(n - #ids, names)
    names = nil
    local astray = {}
    for k = 1, #order do
      local a = order[k]
      if not a.ids then
        accounts_touched[a.name] = a
        a.ids, a.given = leave_list(a, a.want), 0
        a.vt = a.vt - (a.want - #a.ids) * a.cost
        a.pending = a.pending + #a.ids
        if a.rate > 0 then client_rates_count(a, #a.ids) end
        latest = math.max(latest, a.vt)
        if a.astray then astray[#astray + 1] = a end
      end
      a.given = a.given + 1
      local id = a.ids[a.given]
      if id then
        have = have + 1
        ids[have], whose[have] = id, a.name
      end
    end
    start = math.max(start, at)
    if #astray == 0 then break end
    local _, behind = accounts_virtual_time()
    behind = math.max(behind, latest) + TURN
    for _, a in ipairs(astray) do a.vt = math.max(a.vt, behind) end
    if #ids == n then break end
    for _, a in ipairs(order) do a.ids = false end
    client_ring_write()
    if round == 0 then leave_list_budget = 0 end -- there may be more: the worker takes again
  end
  return ids, whose, latest, start
end
