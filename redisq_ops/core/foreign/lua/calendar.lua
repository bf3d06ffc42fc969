-- A time as year, month, day, hour, minute, second, UTC: other programs write dates into their records.
local function calendar_date(ms)
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
