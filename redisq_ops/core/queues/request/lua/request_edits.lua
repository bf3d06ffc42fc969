-- Sub-requests whose payload an operator has replaced: id -> payload in `edited`.
-- KEYS: edited
local request_edits_ended = {}
local request_edits_known -- whether there are any; read once
local function request_edits_any()
  if request_edits_known == nil then request_edits_known = redis.call('EXISTS', edited) == 1 end
  return request_edits_known
end
