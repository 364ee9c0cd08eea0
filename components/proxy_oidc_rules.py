"""What Envoy has no word for when an issuer signs people in: short programs in Lua that know no secret.

An issuer takes addresses to come back to one by one, and each storage has an origin of its own. So it comes back to the
main host, which reads in the state what origin was asked and leads there, whether it exists or not, with the code
sealed for it; that origin's cookie alone decides if the state is the one that this browser was given.
"""

from components.proxy_rules import COOKIES, LABEL_LENGTH, METADATA

CALLBACK = "/.gpu-runtime/callback"
SIGN_OUT = "/.gpu-runtime/sign-out"
"""Paths of every origin that never lead to what is behind."""

LONGEST_STATE = 8192

PART_BYTES = 3600
"""Of a cookie's value, so that browsers keep it with its name and attributes: they take 4096 in all."""

_CALLBACK = """\
local HOST, CALLBACK, SIGN_OUT, SEALER = "{host}", "{callback}", "{sign_out}", "{sealer}"
local LABEL, STATE, MILLISECONDS = {label}, {state}, 2000
local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

local function decoded(text)
  local value, bits, bytes = 0, 0, {{}}
  for digit in text:gmatch("[%w_-]") do
    value, bits = value * 64 + DIGITS:find(digit, 1, true) - 1, bits + 6
    if bits >= 8 then
      bits = bits - 8
      bytes[#bytes + 1] = string.char(math.floor(value / 2 ^ bits))
      value = value % 2 ^ bits
    end
  end
  return table.concat(bytes)
end

-- As oauth2 reads a query: of several with a name the first.
local function said(path, name)
  return ("&" .. (path:match("%?(.*)") or "")):match("&" .. name .. "=([^&]*)") or ""
end

local function bare(authority)
  return (authority:gsub(":%d+$", ""))
end

-- The origin in the state, where it is one label below the main host; the path beside it stays unread.
local function origin_in(state, authority)
  local asked = #state <= STATE and decoded(state):match('"url":"https://([^/"?#]+)/') or ""
  local label = asked:match("^([a-z0-9-]+)%.")
  return label and #label <= LABEL and asked == label .. "." .. authority and asked
end

local function ask(handle, what, origin, code)
  local request = {{[":method"] = "GET", [":path"] = what, [":authority"] = origin, ["x-code"] = code}}
  local headers, body = handle:httpCall(SEALER, request, nil, MILLISECONDS)
  return headers[":status"] == "200" and body
end

local function lead_on(handle, path, authority)
  local state, code = said(path, "state"):match("^[%w_-]+$") or "", said(path, "code")
  local origin = origin_in(state, authority)
  if not origin then
    return handle:respond({{[":status"] = "400"}}, "")
  end
  local sealed = code ~= "" and ask(handle, "/seal", bare(origin), code)
  if code ~= "" and not sealed then
    return handle:respond({{[":status"] = "503"}}, "")
  end
  local query = "?" .. (sealed and "code=" .. sealed .. "&" or "") .. "state=" .. state
  local location = "https://" .. origin .. CALLBACK .. query
  handle:respond({{[":status"] = "302", location = location, ["cache-control"] = "no-store"}}, "")
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path, authority = headers:get(":path") or "", (headers:get(":authority") or ""):lower()
  local way = path:match("^[^?]*")
  if way ~= CALLBACK and way ~= SIGN_OUT then
    return
  end
  -- with a password either would pass on to what is behind
  headers:remove("authorization")
  if way == SIGN_OUT then
    return
  end
  if bare(authority) == HOST then
    return lead_on(handle, path, authority)
  end
  local code = ask(handle, "/unseal", bare(authority), said(path, "code"))
  if not code then
    return handle:respond({{[":status"] = "401"}}, "")
  end
  -- the headers from before that answer are nobody's any more
  handle:headers():replace(":path", CALLBACK .. "?code=" .. code .. "&state=" .. said(path, "state"))
end
"""

_KEEP = """\
local function keep(headers, cookies)
  headers:remove("cookie")
  if #cookies > 0 then
    headers:add("cookie", table.concat(cookies, "; "))
  end
end

"""
"""What two of the programs have in common: a request's cookies are these, in one header."""

_COOKIES = """\
local OURS = "{ours}"

function envoy_on_request(handle)
  local headers, kept = handle:headers(), {{}}
  for index = 0, headers:getNumValues("cookie") - 1 do
    for cookie in headers:getAtIndex("cookie", index):gmatch("[^;]+") do
      local plain = cookie:match("^%s*(.-)%s*$")
      if plain ~= "" and plain:sub(1, #OURS) ~= OURS then
        kept[#kept + 1] = plain
      end
    end
  end
  keep(headers, kept)
end
"""

_PARTS = """\
-- A browser keeps no cookie above 4096 bytes, and an ID token with many groups is more: it comes and goes in parts,
-- the first by the cookie's own name. They are judged when they are one again, by the signature over all of it.
local NAME, MOST = "{name}", {most}

function envoy_on_request(handle)
  local headers, kept, parts, first = handle:headers(), {{}}, {{}}, nil
  for index = 0, headers:getNumValues("cookie") - 1 do
    for cookie in headers:getAtIndex("cookie", index):gmatch("[^;]+") do
      local name, value = cookie:match("^%s*([^=]*)=(.-)%s*$")
      local number = name and name:sub(1, #NAME) == NAME and name:sub(#NAME + 1):match("^%.(%d+)$")
      if number then
        parts[number] = value
      else
        kept[#kept + 1] = cookie:match("^%s*(.-)%s*$")
        first = name == NAME and #kept or first
      end
    end
  end
  if not next(parts) then
    return
  end
  local number = 2
  while first and parts[tostring(number)] do
    kept[first], number = kept[first] .. parts[tostring(number)], number + 1
  end
  keep(headers, kept)
end

function envoy_on_response(handle)
  local headers, said = handle:headers(), {{}}
  for index = 0, headers:getNumValues("set-cookie") - 1 do
    local cookie = headers:getAtIndex("set-cookie", index)
    local value, rest = cookie:match("^[^=]*=([^;]*)(.*)$")
    if cookie:sub(1, #NAME + 1) == NAME .. "=" and value then
      local number = 1
      repeat
        said[#said + 1] = NAME .. (number > 1 and "." .. number or "") .. "=" .. value:sub(1, MOST) .. rest
        value, number = value:sub(MOST + 1), number + 1
      until value == ""
      -- what an older and longer one has left
      said[#said + 1] = NAME .. "." .. number .. "=; path=/; expires=Thu, 01 Jan 1970 00:00:00 GMT; secure; httponly"
    else
      said[#said + 1] = cookie
    end
  end
  headers:remove("set-cookie")
  for _, cookie in ipairs(said) do
    headers:add("set-cookie", cookie)
  end
end
"""

_ASIDE = """\
-- What a page of a unit says to its own program; a password is for the proxy, and of two nobody knows which counts.
function envoy_on_request(handle)
  local headers, notes = handle:headers(), handle:streamInfo():dynamicMetadata():get("{notes}") or {{}}
  local said = headers:get("authorization")
  local one = notes.kind == "port" and headers:getNumValues("authorization") == 1
  if one and not said:lower():find("^basic") then
    headers:remove("authorization")
    headers:add("{aside}", said)
  end
end
"""

_PUT_BACK = """\
function envoy_on_request(handle)
  local headers = handle:headers()
  local said = headers:get("{aside}")
  if said then
    headers:remove("{aside}")
    headers:replace("authorization", said)
  end
end
"""


def callback_rules(host: str, sealer: str) -> str:
    """Give the program of the callback for the proxy whose main host is *host*; the cluster *sealer* seals codes."""
    ways = {"callback": CALLBACK, "sign_out": SIGN_OUT, "sealer": sealer}
    return _CALLBACK.format(host=host, label=LABEL_LENGTH, state=LONGEST_STATE, **ways)


def aside_rules(header: str) -> str:
    """Give the program that keeps a unit's own token in *header* while passwords and sessions are judged."""
    return _ASIDE.format(notes=METADATA, aside=header)


def put_back_rules(header: str) -> str:
    """Give the program that takes it out of *header* again."""
    return _PUT_BACK.format(aside=header)


def part_rules() -> str:
    """Give the program that has a browser keep an ID token of any size."""
    return _KEEP + _PARTS.format(name=f"{COOKIES}id-token", most=PART_BYTES)


def cookie_rules() -> str:
    """Give the program that keeps our cookies from what is behind."""
    return _KEEP + _COOKIES.format(ours=COOKIES)
