"""What a tenant admits of those whom an issuer signed in, in the words of Envoy's filter `rbac`."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]

Claims = tuple[tuple[str, tuple[str, ...]], ...]
"""Claim to values, one of which is enough."""

RBAC = "envoy.filters.http.rbac"
"""The filter of the proxy that judges whom an issuer signed in, as components/proxy_oidc.py has it."""

RULES = "gpu-runtime"
"""Where the rules of the proxy note the namespace of the host that is asked, as components/proxy_rules.py has it."""

MOST_CLAIMS, MOST_VALUES, LONGEST = 10, 200, 256
"""As a stack file may have them; more of them, and none of them counts."""

AROUND = 32
"""Bytes of JSON around a value."""

ADDRESS, PROVEN = "email", "email_verified"
"""Some issuers let people claim any address: it counts with the word that they proved it."""


def read_claims(text: str) -> Claims | None:
    """Read what a tenant's Secret says; None where anything in it is odd."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not 0 < len(said) <= MOST_CLAIMS:
        return None
    if not all(_is_text(name) and _are_values(values) for name, values in said.items()):
        return None
    return tuple((name, tuple(values)) for name, values in sorted(said.items()))


def _are_values(values: object) -> bool:
    return isinstance(values, list) and 0 < len(values) <= MOST_VALUES and all(map(_is_text, values))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isascii() and value.isprintable()


def claims_weight(claims: Claims) -> int:
    """Give about the bytes of JSON that *claims* are: each value twice, with the words around it."""
    return sum(2 * (len(value) + AROUND) for _, values in claims for value in values)


def judge(tenants: Iterable[tuple[str, Claims]]) -> Json:
    """Give what all routes together say to the filter: who said a right password, and each namespace's own people.

    Once a namespace, however many hosts it has; which one is asked the proxy's rules noted before. Those who are judged
    by a password are known by their virtual host, and the first policy's name begins so that it is looked at first.
    """
    own = {f"tenant/{name}": _policy([_asks(name)], list(_principals(claims))) for name, claims in tenants if claims}
    policies = {"password": _policy([{"any": True}], [PASSWORD]), **own}
    kind = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute"
    return {"@type": kind, "rbac": {"rules": {"action": "ALLOW", "policies": policies}}}


def _policy(permissions: list[Json], principals: list[Json]) -> Json:
    return {"permissions": permissions, "principals": principals}


def _noted(by: str, path: tuple[str, ...], value: Json) -> Json:
    """Match what the filter *by* noted of the request."""
    matcher = {"filter": by, "path": [{"key": key} for key in path], "value": value}
    return {"sourced_metadata": {"metadata_matcher": matcher}}


PASSWORD = _noted("envoy.filters.http.basic_auth", ("username",), {"present_match": True})


def _asks(namespace: str) -> Json:
    return _noted(RULES, ("namespace",), {"string_match": {"exact": namespace}})


def _principals(claims: Claims) -> Iterator[Json]:
    """Match each value as a whole, where the claim is one text and where it is a list of them."""
    for name, values in claims:
        one = _any([{"string_match": {"exact": value}} for value in values])
        has = _claim(name, _any([one, {"list_match": {"one_of": one}}]))
        proven = _claim(PROVEN, {"bool_match": True})
        yield {"and_ids": {"ids": [has, proven]}} if name == ADDRESS else has


def _claim(name: str, value: Json) -> Json:
    return _noted("envoy.filters.http.jwt_authn", ("claims", name), value)


def _any(values: list[Json]) -> Json:
    """Match one of *values*; Envoy's word for that takes no fewer than two."""
    return values[0] if len(values) == 1 else {"or_match": {"value_matchers": values}}
