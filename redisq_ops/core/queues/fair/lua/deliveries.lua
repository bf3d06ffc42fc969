-- Acknowledged deliveries, the most common change. If a client has neither rules nor holes, and stays
-- known, its turns don't depend on them: one number of its line changes, nothing else.
-- KEYS: body owner accounts
-- USES: accounts bulk_write corrupt_values
local match = string.match

-- The clients of some entries, in their order; and id and client by turns where `owner` lacks them.
local function deliveries_owners(ids)
  local whose, owned = redis.call('HMGET', owner, unpack(ids)), {}
  for k, id in ipairs(ids) do
    if not whose[k] then -- it was never delivered
      local content = redis.call('HGET', body, id)
      whose[k] = content and match(content, '^([!-~]+) ') or false
      if content and not whose[k] then corrupt_values_fail(body, id, 'a client and a payload') end
      if whose[k] then owned[#owned + 1], owned[#owned + 2] = id, whose[k] end
    end
  end
  return whose, owned
end

-- Read what acknowledged entries change. Returns name and new line of accounts by turns, the ids that
-- need no more than that, and all other ids.
local function deliveries_read(ids)
  local whose, names, counts, plain = redis.call('HMGET', owner, unpack(ids)), {}, {}, {}
  for k = 1, #ids do
    local name = whose[k]
    if name and counts[name] then
      -- mutant ended together, counted once: counts[name] + =>
      counts[name] = counts[name] + 1
    elseif name then
      names[#names + 1], counts[name] = name, 1
    end
  end
  local lines = #names > 0 and redis.call('HMGET', accounts, unpack(names)) or {}
  local kept, gone, others = {}, {}, {}
  for i, name in ipairs(names) do
    -- mutant below its cap and not in the ring: ( %-?%d+ %d+) => ( .*)
    local waiting, pending, rest = match(lines[i] or '', '^(%d+) (%d+)( %-?%d+ %d+)$')
    local left = rest and pending - counts[name]
    -- mutant clients nobody knows any more are known:
    --   left > 0 or left == 0 and waiting ~= '0' => left >= 0
    if left and (left > 0 or left == 0 and waiting ~= '0') then
      accounts_lessened[name] = waiting .. ' ' .. accounts_text[left] .. rest
      kept[#kept + 1], kept[#kept + 2] = name, accounts_lessened[name]
      plain[name] = true
    end
  end
  local n = 0
  for k = 1, #ids do
    if plain[whose[k]] then
      n = n + 1
      gone[n] = ids[k]
    else
      others[#others + 1] = ids[k]
    end
  end
  return kept, gone, others
end

local function deliveries_write(kept, gone)
  if #gone == 0 then return end
  bulk_write_fields(accounts, kept)
  -- mutant ended and still there
  redis.call('HDEL', body, unpack(gone))
  redis.call('HDEL', owner, unpack(gone))
end
