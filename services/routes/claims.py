"""What a tenant admits of those whom an issuer signed in, in the words of Envoy's filter `rbac`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]

Claims = tuple[tuple[str, tuple[str, ...]], ...]
"""Claim to values, one of which is enough."""

RBAC = "envoy.filters.http.rbac"
"""The filter of the proxy to which a virtual host says whom it admits, as components/proxy_oidc.py has it."""

MOST_CLAIMS, MOST_VALUES, LONGEST = 10, 200, 256
"""As a stack file may have them; more of them, and none of them counts."""

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


def admitted(claims: Claims) -> Json:
    """Give what a virtual host says to the filter: who said a right password, and who has one of *claims*."""
    policies = {"password": _policy([PASSWORD]), "claims": _policy(list(_principals(dict(claims))))}
    kind = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute"
    return {"@type": kind, "rbac": {"rules": {"action": "ALLOW", "policies": policies}}}


def _policy(principals: list[Json]) -> Json:
    return {"permissions": [{"any": True}], "principals": principals}


def _noted(by: str, path: tuple[str, ...], value: Json) -> Json:
    """Match what the filter *by* noted of the request."""
    matcher = {"filter": by, "path": [{"key": key} for key in path], "value": value}
    return {"sourced_metadata": {"metadata_matcher": matcher}}


PASSWORD = _noted("envoy.filters.http.basic_auth", ("username",), {"present_match": True})


def _claim(name: str, value: Json) -> Json:
    return _noted("envoy.filters.http.jwt_authn", ("claims", name), value)


def _principals(claims: Mapping[str, tuple[str, ...]]) -> Iterator[Json]:
    """Match each value as a whole, where the claim is one text and where it is a list of them."""
    for name, values in claims.items():
        for exact in ({"string_match": {"exact": value}} for value in values):
            one = {"or_ids": {"ids": [_claim(name, exact), _claim(name, {"list_match": {"one_of": exact}})]}}
            proven = _claim(PROVEN, {"bool_match": True})
            yield {"and_ids": {"ids": [one, proven]}} if name == ADDRESS else one
