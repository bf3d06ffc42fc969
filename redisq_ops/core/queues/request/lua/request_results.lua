-- Results of sub-requests, in hashes of a thousand each.
-- Results go to a hash of a thousand sub-requests; `entry` says to which.
-- KEYS: res_
-- USES: list_of
local function request_results_keep(q, field, value, entry)
  local key = res_ .. q.rid .. ':' .. math.floor(entry / 1000)
  q.results = q.results or {}
  local rows = list_of(q.results, key)
  rows[#rows + 1], rows[#rows + 2] = field, value
end
