"""What this unit's tunnel shall be: read from a mounted directory, judged whole before any of it is used."""

import json
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label in lower case; as a server's name it is a folder's name as well."""

HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
"""A DNS name in lower case. frp renders its configuration as a template, so that no text may enter unjudged."""

ADDRESS = re.compile(r"[A-Za-z0-9.:-]{1,253}")
"""A DNS name or an address of either family."""

CAPABILITY = re.compile(r"[0-9a-f]{64}")
"""An HMAC-SHA256 in hexadecimal."""

TOKEN = re.compile(r"[\x21-\x7e]{16,512}")
"""Printable, without blanks (frp trims a token's file), and long enough not to be guessed."""

MAX_PORT = 65535


class WantedError(Exception):
    """The directory does not say a usable tunnel; the message names the file and never a secret."""


@dataclass(frozen=True)
class Unit:
    """Who this tunnel belongs to, and the ``host`` that it announces."""

    owner: str
    namespace: str
    unit: str
    host: str


@dataclass(frozen=True)
class Server:
    """One frps."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Access:
    """What a login takes, all of which may change while the tunnel is up."""

    server_name: str
    ca: str
    token: str = field(repr=False)
    capability: str = field(repr=False)
    tcp_mux: bool = True
    """Whether the servers carry all sessions in one connection: both sides must agree, and this is frp's default."""


@dataclass(frozen=True)
class Wanted:
    """The tunnel as the directory has it now."""

    unit: Unit
    servers: tuple[Server, ...]
    access: Access


def read_wanted(directory: Path) -> Wanted:
    """Read ``tunnel.json``, ``ca.crt``, ``token`` and ``capability``.

    Raises:
        WantedError: a file is missing or says something unusable.

    """
    # A mounted Secret changes by a swap of the link `..data`: resolved once, all four files are of one version.
    current = directory / "..data"
    root = current.resolve() if current.exists() else directory
    said = _parsed(_text(root / "tunnel.json"))
    unit = Unit(*(_match(said, key, pattern) for key, pattern in _UNIT.items()))
    access = Access(
        server_name=_match(said, "serverName", HOST),
        ca=_ca(_text(root / "ca.crt")),
        token=_secret(root / "token", TOKEN),
        capability=_secret(root / "capability", CAPABILITY),
        tcp_mux=_mux(said),
    )
    return Wanted(unit, _servers(said["servers"]), access)


_UNIT = {"owner": re.compile(r"\S{1,253}"), "namespace": LABEL, "unit": LABEL, "host": HOST}

_KEYS = {*_UNIT, "serverName", "servers"}
_OPTIONAL = {"tcpMux"}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise WantedError(f"{path.name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WantedError(f"{path.name}: not text") from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise WantedError("tunnel.json: not JSON") from None
    if not isinstance(said, dict) or set(said) - _OPTIONAL != _KEYS:
        raise WantedError(f"tunnel.json: must be an object of exactly {', '.join(sorted(_KEYS))}")
    return said


def _match(said: dict[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = said[key]
    if not isinstance(value, str) or not pattern.fullmatch(value) or "{{" in value:
        raise WantedError(f"tunnel.json: {key} {value!r:.80} is not usable as such")
    return value


def _mux(said: dict[str, Any]) -> bool:
    mux = said.get("tcpMux", True)
    if not isinstance(mux, bool):
        raise WantedError("tunnel.json: tcpMux is true or false")
    return mux


def _servers(said: object) -> tuple[Server, ...]:
    if not isinstance(said, list) or not said:
        raise WantedError("tunnel.json: servers must be a list of at least one server")
    servers = tuple(_server(entry) for entry in said)
    if len({server.name for server in servers}) < len(servers):
        raise WantedError("tunnel.json: two servers have the same name")
    return servers


def _server(said: object) -> Server:
    if not isinstance(said, dict) or set(said) != {"name", "address", "port"}:
        raise WantedError("tunnel.json: each server has exactly name, address and port")
    port = said["port"]
    if type(port) is not int or not 0 < port <= MAX_PORT:
        raise WantedError(f"tunnel.json: port {port!r:.80} is not a port")
    return Server(_match(said, "name", LABEL), _match(said, "address", ADDRESS), port)


def _secret(path: Path, pattern: re.Pattern[str]) -> str:
    value = _text(path).strip()
    if not pattern.fullmatch(value):
        raise WantedError(f"{path.name}: does not look like one")
    return value


def _ca(text: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise WantedError("ca.crt: no usable certificate") from None
    return text
