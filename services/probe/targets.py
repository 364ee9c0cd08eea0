"""What to try: a JSON list, judged whole before anything is tried."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

DNS_PORT = 53
MAX_PORT = 65535

NAMESERVERS = "NAMESERVERS"
"""As a variable: the addresses that this pod's resolver asks."""


class InputError(Exception):
    """The list is no list of targets; the message says where."""


@dataclass(frozen=True)
class Target:
    """One thing to try, and what should come of it."""

    name: str
    host: str
    """An address or a name; in the list also ``$VARIABLE``, of which each address becomes a target of its own."""
    port: int
    protocol: str
    """TCP; UDP at port 53 alone, where a question shows whether it arrives."""
    expect: str
    """open or closed."""
    why: str
    optional: bool = False
    """A name that does not exist counts as closed: what it names may not be made yet."""

    @property
    def where(self) -> str:
        """Give ``host:port/protocol``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.protocol}"

    @property
    def asks(self) -> bool:
        """Say whether a DNS question must be answered; otherwise a connection says enough."""
        return self.port == DNS_PORT and (self.protocol == "UDP" or self.expect == "open")


def read(path: Path, variables: Mapping[str, str]) -> list[Target]:
    """Read the list at *path*; *variables* hold one or more addresses each, by blanks apart.

    Raises:
        InputError: it is unreadable, or an entry is not usable.

    """
    try:
        said = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(said, list) or not said:
        raise InputError(f"{path}: must be a list of at least one target")
    targets = [target for entry in said for target in _expanded(_target(entry), variables)]
    if {target.expect for target in targets} != {"open", "closed"}:
        raise InputError(f"{path}: must hold open targets, which prove that there is a network, and closed ones")
    return targets


def nameservers(resolv_conf: str) -> str:
    """Give the nameservers of *resolv_conf*, by blanks apart."""
    lines = [line.split() for line in resolv_conf.splitlines()]
    return " ".join(words[1] for words in lines if len(words) > 1 and words[0] == "nameserver")


def cluster_domain(resolv_conf: str) -> str | None:
    """Give the domain of the cluster that *resolv_conf* searches for Services in, such as cluster.local."""
    lines = [line.split() for line in resolv_conf.splitlines()]
    searched = [word for words in lines if words[:1] == ["search"] for word in words[1:]]
    return next((word.removeprefix("svc.").rstrip(".") for word in searched if word.startswith("svc.")), None)


_TYPES = {"name": str, "host": str, "port": int, "protocol": str, "expect": str, "why": str, "optional": bool}


def _target(said: Any) -> Target:
    if not isinstance(said, dict) or set(said) | {"optional"} != set(_TYPES):
        raise InputError(f"{said!r:.120}: a target has exactly {', '.join(_TYPES)}")
    for key, value in said.items():
        if type(value) is not _TYPES[key] or value == "":
            raise InputError(f"target {said['name']!r:.60}: {key} {value!r:.60} is not usable as such")
    target = Target(**said)
    if not 0 < target.port <= MAX_PORT or target.expect not in {"open", "closed"}:
        raise InputError(f"target {target.name!r:.60}: has port 1 to {MAX_PORT} and expects open or closed")
    if target.protocol != "TCP" and (target.protocol, target.port) != ("UDP", DNS_PORT):
        raise InputError(f"target {target.name!r:.60}: protocol is TCP, or UDP with port {DNS_PORT}")
    return target


def _expanded(target: Target, variables: Mapping[str, str]) -> list[Target]:
    if not target.host.startswith("$"):
        return [target]
    values = variables.get(target.host[1:], "").split()
    if not values:
        raise InputError(f"target {target.name!r:.60}: {target.host} is not set")
    for value in values:
        if not is_address(value):
            raise InputError(f"target {target.name!r:.60}: {target.host} holds {value!r:.60}, which is no address")
    return [replace(target, host=value) for value in values]


def is_address(host: str) -> bool:
    """Say whether *host* is an address of either family and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
