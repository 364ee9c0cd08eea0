"""Whom a tenant admits of an issuer's people, as `routes` reads it and writes it."""

import base64
import json
from typing import Any

import pytest
from routes.claims import MOST_CLAIMS, MOST_VALUES, RBAC, read_claims
from routes.envoy import BASIC_AUTH, routes_json
from routes.hosts import Site
from routes.view import View

from components.proxy_rules import METADATA
from tests.services.cluster import htpasswd, namespace, secret

GROUPS = '{"groups": ["team"]}'


def served(passwords: str, claims: str | bytes | None) -> dict[str, Any]:
    """Give the routes of a tenant whose Secret has these, and of one that has passwords alone."""
    view, said = View(()), secret("lab-a", passwords)
    if claims is not None:
        raw = claims.encode() if isinstance(claims, str) else claims
        said["data"]["claims"] = base64.b64encode(raw).decode()
    view.namespaces.replace([namespace("lab-a"), namespace("lab-b")])
    view.services.replace([])
    view.slices.replace([])
    view.secrets.replace([said, secret("lab-b", htpasswd("bob"))])
    found = json.loads(routes_json(view.tenants(frozenset({"dev"})), Site("files.test", 443)))
    made: dict[str, Any] = found["resources"][0]
    return made


def hosts(passwords: str, claims: str | bytes | None) -> list[dict[str, Any]]:
    """Give the index of each."""
    return [host for host in served(passwords, claims)["virtual_hosts"] if "*" not in host["name"]]


def policies(passwords: str, claims: str | None) -> dict[str, Any]:
    """Give what is said of an issuer's people."""
    rules = served(passwords, claims)["typed_per_filter_config"][RBAC]["rbac"]["rules"]
    assert rules["action"] == "ALLOW"
    found: dict[str, Any] = rules["policies"]
    return found


def test_claims_are_their_tenants_alone() -> None:
    """They count at a host of its namespace; passwords count at any that has them, and are looked at first."""
    found = policies(htpasswd("alice"), GROUPS)
    matcher = found["tenant/lab-a"]["permissions"][0]["sourced_metadata"]["metadata_matcher"]
    here = {"string_match": {"exact": "lab-a"}}

    assert list(found) == sorted(found) == ["password", "tenant/lab-a"]
    assert matcher == {"filter": METADATA, "path": [{"key": "namespace"}], "value": here}
    assert '"exact": "team"' in json.dumps(found["tenant/lab-a"]["principals"])
    assert {str(list(host["typed_per_filter_config"])) for host in hosts(htpasswd("alice"), GROUPS)} == {
        f"['{BASIC_AUTH}']"
    }


def test_claims_need_no_passwords() -> None:
    """A tenant may admit an issuer's people alone: the filter's own user is nobody."""
    mine, _ = hosts("", GROUPS)

    assert mine["typed_per_filter_config"] == {}


def test_without_claims_nothing_is_said_of_an_issuer() -> None:
    """A proxy without one has no filter for it."""
    assert served(htpasswd("alice"), None)["typed_per_filter_config"] == {}


@pytest.mark.parametrize(
    "claims",
    [
        "",
        "[]",
        "{}",
        '{"groups": []}',
        '{"groups": "team"}',
        '{"groups": [1]}',
        '{"groups": [""]}',
        '{"groups": ["a\\n"]}',
        '{"": ["a"]}',
        '{"groups": ["' + "a" * 257 + '"]}',
        json.dumps({"groups": ["a"] * (MOST_VALUES + 1)}),
        json.dumps({f"c{number}": ["a"] for number in range(MOST_CLAIMS + 1)}),
        b"\xff",
        "[" * 9000,
    ],
)
def test_odd_claims_are_nobodys(claims: str | bytes) -> None:
    """What the program would not have written lets nobody in, passwords included, and every other tenant's people."""
    assert [host["name"] for host in hosts(htpasswd("alice"), claims)] == ["lab-b"]


def test_nobody_is_nobody() -> None:
    """A Secret with neither is worth nothing."""
    assert [host["name"] for host in hosts("", None)] == ["lab-b"]


def test_an_address_counts_where_it_is_proven() -> None:
    """Only `email` asks for the issuer's word that it was proven."""
    mine, other = (json.dumps(policies("", said)) for said in ('{"email": ["alice@example.com"]}', GROUPS))

    assert "email_verified" in mine
    assert "email_verified" not in other
    assert read_claims('{"b": ["y", "z"], "a": ["x"]}') == (("a", ("x",)), ("b", ("y", "z")))
