-- Results of sub-requests: a hash for each thousand, in `q.results` until the flush. `entry`: the
-- number of the sub-request, which says in which hash the result is.
-- KEYS: res_
-- USES: list_of
local function request_results_keep(q, field, value, entry)
  local key = res_ .. q.rid .. ':' .. math.floor(entry / 1000)
  q.results = q.results or {}
  local rows = list_of(q.results, key)
  rows[#rows + 1], rows[#rows + 2] = field, value
end
