-- What the owner counts, and its times: the server's date, UTC, as both programs write it into names
-- of keys and into records.
-- The script using this has `sidekiq` (see `lists`).
-- KEYS: t_stat_
-- USES: owner_lists
local function civil(ms)
  local days = math.floor(ms / 86400000)
  local z = days + 719468 -- days since March 1 of the year 0: leap days come last
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
    - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local shifted = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * shifted + 2) / 5) + 1
  local month = shifted < 10 and shifted + 3 or shifted - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  local s = math.floor(ms / 1000) % 86400
  return year, month, day, math.floor(s / 3600), math.floor(s / 60) % 60, s % 60
end

local function today()
  local year, month, day = civil(now)
  return string.format('%04d-%02d-%02d', year, month, day)
end

-- How a time stands in a record: seconds with a fraction (Sidekiq up to 7), integer ms (8), or a
-- date (Resque).
local function stamp(unit)
  if unit == 'ms' then return string.format('%.0f', now) end
  if unit == 's' then return string.format('%.3f', now / 1000) end
  return string.format('"%04d/%02d/%02d %02d:%02d:%02d UTC"', civil(now))
end

-- What the owner counts: jobs run, and those of them that failed. By now they are settled, so a key
-- that can't be counted in (another type, no number) is left as it is: an error here would deny that.
local function count_theirs(processed, bad)
  for name, n in pairs({processed = processed, failed = bad}) do
    if n > 0 then
      redis.pcall('INCRBY', t_stat_ .. name, n)
      if sidekiq then
        local daily = t_stat_ .. name .. ':' .. today()
        if type(redis.pcall('INCRBY', daily, n)) == 'number' then
          redis.call('EXPIRE', daily, 157680000)
        end
      end
    end
  end
end
