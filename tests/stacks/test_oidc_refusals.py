"""Who signs people in, in bad stack files: each mistake is refused with its path and advice, and no secret is shown."""

from collections.abc import Callable
from typing import Any

import pytest

from components import derive
from components.access import AccessSecrets, access_manifests
from stacks.keys import Keys
from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import SECRET, STACKS, raw
from tests.stacks.test_refusals import at, refused

PATH = "platform.browser.oidc"
CLIENT_SECRET = "what-the-issuer-gave"
ENCRYPTED = {"gpu-runtime:secret", "gpu-runtime:oidcClientSecret"}
URL = "https://id.example.com"


def issuer(**said: Any) -> dict[str, Any]:
    """Give what a stack file says of an issuer."""
    ends = {"authorizationEndpoint": f"{URL}/auth", "tokenEndpoint": f"{URL}/token", "jwksUri": f"{URL}/keys"}
    ca = derive.Authority(SECRET, 0, "id").certificate
    return {"issuer": URL, "clientId": "gpu-runtime", **ends, "cidrs": ["203.0.113.7/32"], "ca": ca, **said}


def config(**said: Any) -> dict[str, Any]:
    """Give a stack file whose platform has an issuer, and whose tenant says *said*."""
    found = raw(STACKS / "Pulumi.prod.yaml")
    found["platform"]["browser"]["oidc"] = issuer()
    found["oidcClientSecret"] = CLIENT_SECRET
    found["tenants"]["lab-a"] |= said
    return found


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ({"issuer": "http://id.example.com"}, "must be https://<host>"),
        ({"tokenEndpoint": "https://me:word@id.example.com/token"}, "must be https://<host>"),
        ({"jwksUri": "https://id.example.com/keys#x"}, "must be https://<host>"),
        ({"authorizationEndpoint": "https://ID.example.com/x"}, "must be https://<host>"),
        ({"clientId": "two words"}, "without blanks"),
        ({"clientSecret": CLIENT_SECRET}, "is no key of this release"),
        ({"cidrs": []}, "at least one entry"),
        ({"cidrs": ["0.0.0.0/0"]}, "covers every address"),
        ({"ca": "none"}, "in PEM"),
        ({"userClaim": "e mail"}, "must be the name of a claim"),
    ],
)
def test_a_bad_issuer_is_refused(said: dict[str, Any], advice: str) -> None:
    """The refusal names the path and what would be right, and shows no secret."""
    message = refused(at(PATH, issuer(**said)))

    assert PATH in message
    assert advice in message
    assert CLIENT_SECRET not in message


@pytest.mark.parametrize(
    ("secret", "advice"),
    [(None, "is missing: the proxy proves itself"), ("short", "8 to 512"), ("with a blank in it", "without blanks")],
)
def test_an_issuer_needs_its_secret(secret: str | None, advice: str) -> None:
    """It comes encrypted, in a key of its own."""

    def change(found: dict[str, Any]) -> None:
        found["platform"]["browser"]["oidc"] = issuer()
        found |= {"oidcClientSecret": secret} if secret else {}

    message = refused(change)
    assert "gpu-runtime:oidcClientSecret: " in message
    assert advice in message
    assert "with a blank in it" not in message


def test_a_secret_in_clear_is_refused() -> None:
    """A stack file holds it encrypted, or not at all; and not for nobody."""
    with pytest.raises(Exception, match="oidcClientSecret: is stored in clear text"):
        parse(config(), {"gpu-runtime:secret"})
    assert "is for an issuer, and there is no" in refused(at("oidcClientSecret", CLIENT_SECRET))


def test_people_of_no_issuer_are_refused() -> None:
    """Claims admit nobody where no issuer signs anybody in."""
    message = refused(at("tenants.lab-a.webClaims", {"groups": ["team"]}))

    assert "tenants.lab-a.webClaims: admits nobody: no issuer signs anybody in; say" in message


@pytest.mark.parametrize(
    "claims", [{"groups": []}, {"groups": "team"}, {"e mail": ["x"]}, {"groups": ["t\nx"]}, {"groups": [True]}]
)
def test_bad_claims_are_refused(claims: dict[str, Any]) -> None:
    """A claim is a name with a list of whole values."""
    assert "tenants.lab-a.webClaims" in refused(at("tenants.lab-a.webClaims", claims))


def test_claims_come_to_the_proxy_beside_the_passwords() -> None:
    """A tenant's Secret says them, with no users too; a tenant that says none has none."""
    stack = Stack(parse(config(webClaims={"groups": ["team"]}, webUsers=[]), ENCRYPTED), "prod")
    access = stack.access["lab-a"]
    data = access_manifests(access, AccessSecrets(""))["access"]["stringData"]

    assert (access.users, data) == ((), {"htpasswd": "", "claims": '{"groups": ["team"]}'})
    plain = Stack(parse(config(), ENCRYPTED), "prod").access["lab-a"]
    assert set(access_manifests(plain, AccessSecrets("x"))["access"]["stringData"]) == {"htpasswd"}


def test_admitted_stacks_learn_that_there_is_an_issuer() -> None:
    """The platform says so, and nothing of its secret."""
    keys = Keys(Stack(parse(config(), ENCRYPTED), "prod"))

    assert keys.handed_over()["browser"]["oidc"] is True
    assert CLIENT_SECRET not in str(keys.handed_over())


@pytest.mark.parametrize("of", [derive.session_key, derive.callback_key])
def test_the_keys_are_the_stacks_own(of: Callable[[str, int], str]) -> None:
    """Another secret or epoch ends every session and login; nobody can compute a key from another one."""
    keys = {of(secret, epoch) for secret in (SECRET, SECRET[::-1]) for epoch in (0, 1)}

    assert len(keys) == 4
    assert derive.session_key(SECRET, 0) != derive.callback_key(SECRET, 0)
    assert derive.gate_key(SECRET, 0) not in keys
