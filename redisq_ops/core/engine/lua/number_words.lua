-- Numbers in a row as text. To make it of a number is dear where there are many: one in ten is made,
-- the others have its last digit changed.
local DIGIT = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}

-- The `n` numbers behind `last`, each with `tail` behind it.
local function number_words(last, n, tail)
  local made, head = {}, nil
  for i = 1, n do
    local number = last + i
    local digit = number % 10
    if digit == 0 or not head then
      head = number < 10 and '' or string.format('%.0f', (number - digit) / 10)
    end
    made[i] = head .. DIGIT[digit] .. tail
  end
  return made
end
