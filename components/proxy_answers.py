"""What the proxy says by itself: short plain refusals that tell nothing, and one line of JSON for each request."""

from typing import Any

from components.proxy_rules import METADATA, SEEN

USER_HEADER = "x-forwarded-user"
"""Who signed in, for what is behind the proxy; a client's own is dropped."""

USER_STATE = "gpu-runtime.user"
"""The same, noted for the access log, since headers may be gone by then."""

WORDS = {
    400: "bad request",
    401: "sign in",
    403: "forbidden",
    404: "not found",
    405: "method not allowed",
    408: "request timeout",
    411: "a length is needed",
    413: "too large",
    414: "address too long",
    426: "HTTP/1.1 or newer is needed",
    429: "too many requests",
    431: "request headers too large",
    500: "error of the proxy",
    502: "not reachable",
    503: "not ready",
    504: "no answer in time",
}
"""All that a client is told, whatever the reason was."""

EARLY = (400, 404, 503)
"""What Envoy answers before it asks any filter, so that nothing counts it: an odd path, or no memory is left."""

UNREACHED = ["UF", "UC", "UPE", "UR", "DF", "UT"]
"""Envoy's flags where there was somebody to ask who did not answer: 502, and 503 only where there was nobody."""

CHALLENGE = 'Basic realm="gpu-runtime", charset="UTF-8"'

FIELDS = {
    "time": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "event": "request",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS%",
    "host": "%REQ(:AUTHORITY)%",
    "namespace": f"%DYNAMIC_METADATA({METADATA}:namespace)%",
    "kind": f"%DYNAMIC_METADATA({METADATA}:kind)%",
    "user": f"%FILTER_STATE({USER_STATE}:PLAIN)%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ)%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "reason": "%RESPONSE_CODE_DETAILS%",
    "received": "%BYTES_RECEIVED%",
    "sent": "%BYTES_SENT%",
    "milliseconds": "%DURATION%",
    "upstream": "%UPSTREAM_HOST%",
}
"""No query, no cookie, no password: the first two may carry secrets, too."""

LOG_FLAGS = ("--log-level", "warn", "--component-log-level", "oauth2:off")
"""For Envoy's own log: what oauth2 refuses, it writes with the whole query, and sessions that it cannot read, too."""


def access_log(*, issuer: bool = False) -> list[dict[str, Any]]:
    """Give the access log: to standard output, at the end of each request.

    Beside an *issuer* it has no reason: Envoy's has the query of whatever had no session, and where a login failed all
    that the issuer gave, an ID token too.
    """
    kind = "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
    fields = {key: value for key, value in FIELDS.items() if not issuer or key != "reason"}
    form = {"json_format": fields, "omit_empty_values": False}
    return [{"name": "envoy.access_loggers.stdout", "typed_config": {"@type": kind, "log_format": form}}]


def local_replies(*, issuer: bool = False) -> dict[str, Any]:
    """Give the bodies of what the proxy answers itself; where an *issuer* signs in, browsers ask for no password."""
    unreached = {"response_flag_filter": {"flags": UNREACHED}}
    failed = {"and_filter": {"filters": [_status(503), unreached]}}
    mappers = [_bodiless(), {"filter": failed, "status_code": 502, "body": _body(502)}]
    mappers += [_unprompted()] if issuer else []
    mappers += [{"filter": _status(code), "body": _body(code), **_more(code)} for code in WORDS]
    return {"mappers": mappers}


def _bodiless() -> dict[str, Any]:
    """Say no word to what no filter saw: by HTTP/2 a body that its client does not take is kept, a status is not."""
    seen = {"filter": METADATA, "path": [{"key": SEEN}], "value": {"string_match": {"exact": "no"}}}
    unseen = {"metadata_filter": {"matcher": seen, "match_if_key_not_found": True}}
    early = {"or_filter": {"filters": [_status(code) for code in EARLY]}}
    return {"filter": {"and_filter": {"filters": [unseen, early]}}, "body": {"inline_string": ""}}


def _unprompted() -> dict[str, Any]:
    """Say 401 without a challenge to what a page asks after its session ended: a prompt would be for a password."""
    browsers = {"name": "sec-fetch-dest", "present_match": True}
    passwords = {"name": "authorization", "present_match": False}
    told = [{"header_filter": {"header": header}} for header in (browsers, passwords)]
    return {"filter": {"and_filter": {"filters": [_status(401), *told]}}, "body": _body(401)}


def _status(code: int) -> dict[str, Any]:
    value = {"default_value": code, "runtime_key": f"gpu_runtime.never_set.{code}"}
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": value}}}


def _body(code: int) -> dict[str, str]:
    return {"inline_string": f"{code} {WORDS[code]}\n"}


def _more(code: int) -> dict[str, Any]:
    """Ask for a password in the same words everywhere: Envoy's own name the host and the path."""
    if code != 401:  # noqa: PLR2004 - a status of HTTP
        return {}
    header = {"key": "www-authenticate", "value": CHALLENGE}
    return {"headers_to_add": [{"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}]}
