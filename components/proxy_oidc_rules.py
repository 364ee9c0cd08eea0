"""What Envoy has no word for when an issuer signs people in: short programs in Lua that know no secret.

An issuer takes addresses to come back to one by one, and each storage has an origin of its own. So it comes back to the
main host, which reads in the state what origin was asked and leads there, whether it exists or not; that origin's
cookie alone decides if the state is the one that this browser was given.
"""

from components.proxy_rules import COOKIES, LABEL_LENGTH, METADATA

CALLBACK = "/.gpu-runtime/callback"
SIGN_OUT = "/.gpu-runtime/sign-out"
"""Paths of every origin that never lead to what is behind."""

LONGEST_STATE = 8192

_CALLBACK = """\
local HOST, CALLBACK, LABEL, STATE = "{host}", "{callback}", {label}, {state}
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

-- The origin in the state, where it is one label below the main host; the path beside it stays unread.
local function origin_in(path, authority)
  local state = path:match("[?&]state=([%w_-]+)") or ""
  local asked = #state <= STATE and decoded(state):match('"url":"https://([^/"?#]+)/') or ""
  local label = asked:match("^([a-z0-9-]+)%.")
  return label and #label <= LABEL and asked == label .. "." .. authority and asked
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path, authority = headers:get(":path") or "", (headers:get(":authority") or ""):lower()
  if path:match("^[^?]*") ~= CALLBACK then
    return
  end
  -- a code that passed on with a password would reach what is behind
  headers:remove("authorization")
  if authority:gsub(":%d+$", "") ~= HOST then
    return
  end
  local origin = origin_in(path, authority)
  if not origin then
    return handle:respond({{[":status"] = "400"}}, "")
  end
  handle:respond({{[":status"] = "302", location = "https://" .. origin .. path, ["cache-control"] = "no-store"}}, "")
end
"""

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
  headers:remove("cookie")
  if #kept > 0 then
    headers:add("cookie", table.concat(kept, "; "))
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


def callback_rules(host: str) -> str:
    """Give the program of the callback for the proxy whose main host is *host*."""
    return _CALLBACK.format(host=host, callback=CALLBACK, label=LABEL_LENGTH, state=LONGEST_STATE)


def aside_rules(header: str) -> str:
    """Give the program that keeps a unit's own token in *header* while passwords and sessions are judged."""
    return _ASIDE.format(notes=METADATA, aside=header)


def put_back_rules(header: str) -> str:
    """Give the program that takes it out of *header* again."""
    return _PUT_BACK.format(aside=header)


def cookie_rules() -> str:
    """Give the program that keeps our cookies from what is behind."""
    return _COOKIES.format(ours=COOKIES)
