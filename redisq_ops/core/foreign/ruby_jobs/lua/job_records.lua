-- Records of jobs are read and never written: what Lua encodes isn't byte for byte what was decoded.
local function read_record(text)
  local ok, found = pcall(cjson.decode, text)
  if not ok then -- a lone surrogate, which JSON allows and cjson doesn't
    ok, found = pcall(cjson.decode, (text:gsub('\\u[dD][89a-fA-F]%x%x', '\\u003f')))
  end
  return ok and type(found) == 'table' and text:find('^%s*{.*}%s*$') and found or nil
end

local function quoted(word)
  return '"' .. word:gsub('[\\"]', '\\%0') .. '"'
end

local function hex(payload)
  return (payload:gsub('.', function(c) return string.format('%02x', c:byte()) end))
end
