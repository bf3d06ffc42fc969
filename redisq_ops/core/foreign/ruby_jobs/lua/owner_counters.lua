-- What the owner counts, and its times: the server's date, UTC, as both programs write it into names
-- of keys and into records.
-- The script using this has `sidekiq` (see `lists`).
-- KEYS: t_stat_
-- USES: owner_lists calendar
local function today()
  local year, month, day = calendar_date(now)
  return string.format('%04d-%02d-%02d', year, month, day)
end

-- How a time stands in a record: seconds with a fraction (Sidekiq up to 7), integer ms (8), or a
-- date (Resque).
local function stamp(unit)
  if unit == 'ms' then return string.format('%.0f', now) end
  if unit == 's' then return string.format('%.3f', now / 1000) end
  return string.format('"%04d/%02d/%02d %02d:%02d:%02d UTC"', calendar_date(now))
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
