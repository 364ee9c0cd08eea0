"""What the proxy does to every request and answer beyond Envoy's own filters: one short program in Lua.

It reads no body and knows no secret. The kind of an origin is in its name alone, so that a host that exists and one
that does not get the same answers: `<namespace>.B` is a tenant's index, `<storage>--<namespace>.B` a storage,
`<port>--<unit>--<namespace>.B` a port of a unit.
"""

from components import names
from components.prepare_spec import MARKER_FOLDER

METADATA = names.PROJECT
"""Namespace of what the program notes about a request, for its own second half, the limit and the access log."""

FILES_CSP = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; font-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""For what a tenant wrote: it is shown and runs nothing, not even with the rights of its own origin."""

PAGES_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
"""For the pages of dufs itself: its own script, and frames in which it shows a file, which are sandboxed."""

PLAIN_CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
"""For pages without a script: refusals, and a tenant's index."""

UNIT_CSP = "frame-ancestors 'self'"
"""For what a unit's port answers, where that says nothing of frames: no page of another origin shows it for its own."""

HSTS = "max-age=31536000"

LABEL_LENGTH = 63
"""Of one label of a host name; a longer one exists nowhere."""

LONGEST, LONGEST_MOVED = 8190, 2048
"""Bytes of a path with its query: as many as Apache's server takes, and fewer where the answer repeats them, since a
client need not take that."""

SEEN = "seen"
"""Noted of each request that comes as far as the program: Envoy answers some before it asks any filter."""

COOKIES = "__Host-gpu-runtime-"
"""Begins the name of each of our cookies: a browser takes such a one from its own origin alone, and for it alone."""

_HEAD = """\
local HOST, FILES, PAGES, PLAIN, UNIT = "{host}", "{files}", "{pages}", "{plain}", "{unit}"
local HSTS, NOTES, LABEL, COOKIES, KEPT = "{hsts}", "{notes}", {label}, "{cookies}", "/{kept}/"
local SEEN, LONGEST, LONGEST_MOVED = "{seen}", {longest}, {longest_moved}
"""

_PROGRAM = """
local SAFE = {GET = true, HEAD = true, OPTIONS = true, PROPFIND = true}

-- The host of `host` or `host:digits`. Envoy routes other ends as well, and by them no origin may go unknown.
local function host_of(authority)
  local host, port = authority:lower():match("^([^:]+)(.*)$")
  return (port == "" or (port or ""):find("^:%d+$")) and host
end

-- A path that two readers may read differently is refused: then nobody needs to guess what comes upstream.
local function ambiguous(path)
  local plain = path:gsub("%%2[eE]", ".")
  local lower = plain:lower()
  return path:sub(1, 1) ~= "/" or plain:find("//", 1, true) or plain:find("\\\\", 1, true) or
    (plain .. "/"):find("/%.%.?/") or lower:find("%%2f") or lower:find("%%5c") or lower:find("%%00")
end

-- A page of another origin may link here; it may change nothing and open no socket with its visitor's password.
local function forged(headers, authority)
  local origin = headers:get("origin")
  if origin == nil or (SAFE[headers:get(":method")] and headers:get("upgrade") == nil) then
    return false
  end
  return origin:lower():gsub(":443$", "") ~= ("https://" .. authority:lower()):gsub(":443$", "")
end

-- What prepare keeps beside a storage's files, however a path writes it: dufs hides it, and would write it.
local function is_kept(path)
  local plain = path:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
  local inside = (plain .. "/"):match("^/storage/[^/]+/[^/]+(/.*)$") or ""
  return inside:sub(1, #KEPT) == KEPT
end

local function kind_of(label)
  local _, joints = label:gsub("%-%-", "")
  return ({[0] = "index", [1] = "storage", [2] = "port"})[joints] or "none"
end

local function answer_main(handle, path, bare, authority)
  if #path > LONGEST_MOVED then
    return handle:respond({[":status"] = "414"}, "")
  end
  if bare == "/healthz" then
    return handle:respond({[":status"] = "200", ["content-type"] = "text/plain"}, "ok\\n")
  end
  local namespace, storage, rest = bare:match("^/storage/([a-z0-9-]+)/([a-z0-9-]+)(.*)$")
  local label = (storage or "") .. "--" .. (namespace or "")
  if namespace == nil or not (rest == "" or rest:sub(1, 1) == "/") or #label > LABEL then
    return handle:respond({[":status"] = "404"}, "")
  end
  local location = "https://" .. label .. "." .. authority:lower() .. path
  handle:respond({[":status"] = "308", location = location}, "")
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path, authority = headers:get(":path") or "", headers:get(":authority") or ""
  local bare, host = path:match("^[^?]*"), host_of(authority)
  local notes = handle:streamInfo():dynamicMetadata()
  notes:set(NOTES, SEEN, "yes")
  if #path > LONGEST then
    return handle:respond({[":status"] = "414"}, "")
  end
  if not host or ambiguous(bare) then
    return handle:respond({[":status"] = "400"}, "")
  end
  if host == HOST then
    return answer_main(handle, path, bare, authority)
  end
  local label = host:sub(-#HOST - 1) == "." .. HOST and host:sub(1, -#HOST - 2) or "-"
  notes:set(NOTES, "origin", label)
  local kind = kind_of(label)
  notes:set(NOTES, "kind", kind)
  notes:set(NOTES, "namespace", label:match("^.*%-%-(.+)$") or label)
  local writes = not SAFE[headers:get(":method")]
  if forged(headers, authority) or (kind == "storage" and writes and is_kept(bare)) then
    return handle:respond({[":status"] = "403"}, "")
  end
  -- dufs would read every one of several ranges into its memory; a server may always send the whole
  if kind == "storage" and (headers:get("range") or ""):find(",", 1, true) then
    headers:remove("range")
  end
end

-- Every cookie without its Domain, or ours alone, which have none: those of a login that the proxy answered itself.
local function keep_cookies(headers, ours)
  local kept = {}
  for index = 0, headers:getNumValues("set-cookie") - 1 do
    local cookie = headers:getAtIndex("set-cookie", index)
    if not ours or cookie:sub(1, #COOKIES) == COOKIES then
      kept[#kept + 1] = cookie:gsub(";%s*[dD][oO][mM][aA][iI][nN]%s*=[^;]*", "")
    end
  end
  headers:remove("set-cookie")
  for _, cookie in ipairs(kept) do
    headers:add("set-cookie", cookie)
  end
end

-- dufs says Content-Disposition of what a tenant wrote, and of none of its own pages
local function is_page(headers)
  return headers:get(":status") == "200" and headers:get("content-disposition") == nil and
    (headers:get("content-type") or ""):find("^text/html") ~= nil
end

local function add_default(headers, name, value)
  if headers:get(name) == nil then
    headers:add(name, value)
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local notes = handle:streamInfo():dynamicMetadata():get(NOTES) or {}
  headers:replace("strict-transport-security", HSTS)
  if notes.kind == "port" then
    keep_cookies(headers, false)
    if headers:get("x-frame-options") == nil then
      add_default(headers, "content-security-policy", UNIT)
    end
    add_default(headers, "cross-origin-resource-policy", "same-origin")
    return add_default(headers, "referrer-policy", "same-origin")
  end
  headers:replace("x-content-type-options", "nosniff")
  headers:replace("referrer-policy", "no-referrer")
  headers:replace("cross-origin-resource-policy", "same-origin")
  if notes.kind == "storage" then
    keep_cookies(headers, true)
    headers:replace("content-security-policy", is_page(headers) and PAGES or FILES)
  else
    add_default(headers, "content-security-policy", PLAIN)
  end
end
"""


def rules(host: str) -> str:
    """Give the program of the proxy whose main host is *host*."""
    known = {"host": host, "files": FILES_CSP, "pages": PAGES_CSP, "plain": PLAIN_CSP, "unit": UNIT_CSP}
    said = {"hsts": HSTS, "notes": METADATA, "label": LABEL_LENGTH, "cookies": COOKIES, "kept": MARKER_FOLDER}
    more = {"seen": SEEN, "longest": LONGEST, "longest_moved": LONGEST_MOVED}
    return _HEAD.format(**known, **said, **more) + _PROGRAM
