-- The bound of waiting entries. `max_waiting_refusal(waiting, more)`: the error of a call that would add
-- `more` entries to the `waiting` ones; nil if there is room. The setting is 0 where there is no bound:
-- scripts check that first, since counting what waits can cost a command.
-- USES: config
local function max_waiting_refusal(waiting, more)
  if waiting + more > config.max_waiting then
    return {err = 'FULL ' .. waiting .. ' entries wait and max_waiting is ' .. config.max_waiting}
  end
end
