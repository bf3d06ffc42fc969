-- `number_words(last, n, tail)`: the `n` numbers after `last` as text, each followed by `tail`.
-- Converting a number is expensive where there are many: one in ten is converted, for the others its
-- last digit is replaced.
local DIGIT = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}

local function number_words(last, n, tail)
  local made, head = {}, nil
  for i = 1, n do
    local number = last + i
    local digit = number % 10
    -- mutant receipts after ten begin anew: digit == 0 or =>
    if digit == 0 or not head then
      head = number < 10 and '' or string.format('%.0f', (number - digit) / 10)
    end
    made[i] = head .. DIGIT[digit] .. tail
  end
  return made
end
