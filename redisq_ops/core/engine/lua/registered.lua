-- Refuse a call that would create something in a queue that has lost its data, and with it its entry in
-- the registry: nobody would find what is stored. Who registers a queue leaves a mark in its settings,
-- so this costs no command. The client registers the queue again and repeats the call.
-- KEYS: cfg
-- USES: config
local function registered_check()
  if not config.registered then
    error({err = 'UNREGISTERED ' .. cfg .. ' has no mark of a registration: the server lost its data, '
      .. 'or the queue was destroyed'})
  end
end
