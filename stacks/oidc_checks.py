"""Problems of who signs people in: an issuer without its secret, a secret without an issuer, people of no issuer."""

import re
from collections.abc import Iterator

from components.names import PROJECT
from stacks.problems import Problem, Raw, table

KEY = "oidcClientSecret"
PATH = f"{PROJECT}:platform.browser.oidc"

SECRET = re.compile(r"[!-~]{8,512}")
"""As issuers give them: nothing that a file or a form would change."""


def oidc_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what is wrong with the issuer of *raw*, or with who relies on one."""
    own = table(table(raw.get("platform")).get("browser")).get("oidc") is not None
    if own:
        yield from _secret(raw)
    elif KEY in raw:
        yield Problem(KEY, f"is for an issuer, and there is no {PATH}; say one there, or remove it")
    if not own and table(table(raw.get("platformStack")).get("browser")).get("oidc") is not True:
        yield from _strangers(raw)


def _secret(raw: Raw) -> Iterator[Problem]:
    advice = f"`pulumi config set --secret {PROJECT}:{KEY}` with what the issuer gave for the client"
    if KEY not in raw:
        yield Problem(KEY, f"is missing: the proxy proves itself with it to the issuer of {PATH}; {advice}")
    elif not SECRET.fullmatch(str(raw[KEY])):
        yield Problem(KEY, f"must be 8 to 512 printable characters without blanks; {advice}")


def _strangers(raw: Raw) -> Iterator[Problem]:
    for name, tenant in table(raw.get("tenants")).items():
        if table(tenant).get("webClaims"):
            advice = f"say {PATH} in the stack of the platform, or remove it"
            yield Problem(f"tenants.{name}.webClaims", f"admits nobody: no issuer signs anybody in; {advice}")
