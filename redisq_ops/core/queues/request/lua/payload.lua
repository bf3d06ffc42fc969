-- The payload of a sub-request, as it is to be worked on.
-- USES: content
local function payload(id)
  return content(id)
end
