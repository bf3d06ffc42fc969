-- The payloads of sub-requests, each as it is to be worked on.
-- USES: content
local function payloads(ids)
  local found = {}
  for k, id in ipairs(ids) do found[k] = content(id) end
  return found
end
