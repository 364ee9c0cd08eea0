"""Who may log in: the files that a unit's sshd reads at each login, and a CA whose certificates open units."""

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field

from components.model import Model, matching
from components.public_keys import authorized_key, plain_key, repeated

MOST_KEYS = 200
MOST_CA_KEYS = 20
MOST_PRINCIPALS = 200
"""Together with the longest of each, these still fit the 1 MiB that a ConfigMap may hold."""

PRINCIPAL_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}")
"""No blank and no `#`: before a blank sshd would read options, and after `#` nothing."""


def _distinct(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a key that is there twice: sshd goes by the first line, and options of the second would be ignored."""
    if twice := [f"{before} and {later}" for before, later in repeated(lines)]:
        raise ValueError(f"entries {', '.join(twice)} are the same key (counted from 0); keep one of them")
    return lines


AuthorizedKey = Annotated[str, AfterValidator(authorized_key)]
CaKey = Annotated[str, AfterValidator(plain_key)]
Principal = Annotated[
    str, matching(PRINCIPAL_PATTERN, "must be a name of at most 128 letters, digits and . _ @ : / + -")
]
AuthorizedKeys = Annotated[tuple[AuthorizedKey, ...], Field(max_length=MOST_KEYS), AfterValidator(_distinct)]


class UserCaSpec(Model):
    """Whoever has a certificate of one of these CAs, with one of the principals and within its validity, logs in."""

    keys: Annotated[tuple[CaKey, ...], Field(min_length=1, max_length=MOST_CA_KEYS), AfterValidator(_distinct)]
    principals: Annotated[tuple[Principal, ...], Field(min_length=1, max_length=MOST_PRINCIPALS)] | None = None
    """None: the unit's host, which is its own in the whole world, so that one CA can serve many units."""


def login_files(keys: Iterable[str], ca: UserCaSpec | None, host: str) -> dict[str, str]:
    """Give name → content of the files that say who may log in at *host*; one that is not there admits nobody."""
    if ca is None:
        return {"authorized_keys": _lines(keys)}
    principals = _lines(ca.principals or (host,))
    return {"authorized_keys": _lines(keys), "user_ca_keys": _lines(ca.keys), "authorized_principals": principals}


def _lines(entries: Iterable[str]) -> str:
    return "".join(f"{entry}\n" for entry in entries)
