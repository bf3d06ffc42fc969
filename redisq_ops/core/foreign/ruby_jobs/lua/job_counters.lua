-- The counters that both programs keep, and the times in their records.
-- KEYS: t_stat_
-- USES: calendar jobs_daily
-- A time in a record: seconds with a fraction (Sidekiq up to 7), integer ms (Sidekiq 8), or a date
-- (Resque).
local function stamp(unit)
  if unit == 'ms' then return string.format('%.0f', now) end
  if unit == 's' then return string.format('%.3f', now / 1000) end
  return string.format('"%04d/%02d/%02d %02d:%02d:%02d UTC"', calendar_date(now))
end

-- Count jobs that were run, and those of them that failed. They are settled by now, so an error would be
-- wrong: a key that can't be counted in is left as it is.
local function count_jobs(processed, failed)
  for name, n in pairs({processed = processed, failed = failed}) do
    if n > 0 then
      redis.pcall('INCRBY', t_stat_ .. name, n)
      jobs_daily(t_stat_ .. name, n)
    end
  end
end
