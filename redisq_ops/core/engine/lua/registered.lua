-- Refuse to store anything in a queue without the registration mark: after a loss of data the registry
-- has no entry of it either, so nobody would find what is stored. The mark is in the settings, which
-- scripts read anyway. The client registers the queue again and repeats the call.
-- KEYS: cfg
-- USES: config
local function registered_check()
  if not config.registered then
    error({err = 'UNREGISTERED ' .. cfg .. ' has no mark of a registration: the server lost its data, '
      .. 'or the queue was removed'})
  end
end
