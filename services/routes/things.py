"""What is kept of the cluster's objects, each read with suspicion: what is odd is not there."""

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from watching.api_server import Kind
from watching.table import table, words

from routes.claims import Claims, read_claims

PROJECT = "gpu-runtime"
OWNER_LABEL = f"{PROJECT}/owner"
TENANT_LABEL = f"{PROJECT}/tenant"
COMPONENT_LABEL = "app.kubernetes.io/component"
INSTANCE_LABEL = "app.kubernetes.io/instance"
SIZE_ANNOTATION = f"{PROJECT}/size"
UPLOAD_ANNOTATION = f"{PROJECT}/upload"
WEB_ANNOTATION = f"{PROJECT}/web"
MOUNTS_ANNOTATION = f"{PROJECT}/mounts"
HOST_ANNOTATION = f"{PROJECT}/host"
ACCESS_NAMESPACE = f"{PROJECT}-access"
BROWSER_PORT = "http"
"""As components/names.py has them; a test holds both to the same words."""

OURS = f"app.kubernetes.io/part-of={PROJECT}"

NAMESPACES = Kind("/api/v1/namespaces", f"{OURS},{OWNER_LABEL},{TENANT_LABEL}")
SERVICES = Kind("/api/v1/services", f"{OURS},{OWNER_LABEL},{TENANT_LABEL}")
SLICES = Kind("/apis/discovery.k8s.io/v1/endpointslices", SERVICES.selector, whole=True)
SECRETS = Kind(f"/api/v1/namespaces/{ACCESS_NAMESPACE}/secrets", f"{OURS},{OWNER_LABEL},{TENANT_LABEL}", whole=True)

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""No `--` in it: that is what joins the parts of a host."""

HASHED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._@-]{0,63}):\{SHA\}[A-Za-z0-9+/]{27}=")
"""A line of htpasswd that Envoy takes; one that it does not take would keep every other tenant's news from it."""

BYTES = re.compile(r"[1-9][0-9]{0,17}")
"""Fewer than 2^63, the largest length that a request can say."""

MOST_PORTS = 64
"""Of a unit, as a stack file may show them on the web: each is an origin that names all users of its tenant."""

LONGEST_SIZE, LONGEST_MOUNTS = 32, 16 * 1024
"""Characters of what an index page shows: more than any quantity, or any unit's mounts, as the program says them."""

LONGEST_WEB = MOST_PORTS * 64
"""Characters of a unit's list of web ports: more than so many names, each a part of a host's label, and commas."""

MOST_USERS = 100
"""As a stack file may name them; a Secret with more is worth nothing."""


class Holder(NamedTuple):
    """Whose an object says it is."""

    owner: str
    tenant: str


class Browser(NamedTuple):
    """The Service of a storage's browser."""

    holder: Holder
    name: str
    size: str
    upload: int | None
    """The most bytes of one upload; None: nothing may be written."""


class Unit(NamedTuple):
    """The Service of a unit."""

    holder: Holder
    name: str
    web: tuple[str, ...]
    """Names of the ports that the proxy leads to."""
    said_mounts: str
    """The annotation, unread: many pairs would take twenty times as much, of Services in anybody's namespaces, too."""

    @property
    def mounts(self) -> tuple[tuple[str, str], ...]:
        """Give storage and path of each, for who comes by SSH; none where nobody can."""
        return _mounts(self.said_mounts)


class Address(NamedTuple):
    """Where a pod answers."""

    ip: str
    port: int


class Slice(NamedTuple):
    """A part of where the pods of a Service answer."""

    service: str
    ports: tuple[tuple[str, tuple[Address, ...]], ...]
    """Name of the port to the addresses of pods that are ready."""
    known: frozenset[str] = frozenset()
    """All addresses in it, ready or not."""


class Users(NamedTuple):
    """Who may look at what a tenant has."""

    holder: Holder
    htpasswd: str
    claims: Claims = ()
    """Those of an issuer's people whom the tenant admits; none: nobody."""


def read_namespace(thing: Mapping[str, Any]) -> Holder | None:
    """Read a tenant's namespace."""
    return _holder(_labels(thing)) if _is_name(_meta(thing).get("name")) else None


def read_service(thing: Mapping[str, Any]) -> Browser | Unit | None:
    """Read a Service whose name is the one that the program gives to what its labels say."""
    labels, said = _labels(thing), words(_meta(thing).get("annotations"))
    component, name, holder = labels.get(COMPONENT_LABEL), labels.get(INSTANCE_LABEL), _holder(labels)
    if name is None or holder is None or not _is_name(name) or _meta(thing).get("name") != f"{component}-{name}":
        return None
    if component == "browser":
        size = said.get(SIZE_ANNOTATION, "")
        return Browser(holder, name, size if len(size) <= LONGEST_SIZE else "", _bytes(said.get(UPLOAD_ANNOTATION, "")))
    if component == "unit":
        mounts = said.get(MOUNTS_ANNOTATION, "") if HOST_ANNOTATION in said else ""
        kept = mounts if len(mounts) <= LONGEST_MOUNTS else ""
        return Unit(holder, name, _ports(said.get(WEB_ANNOTATION, "")), kept)
    return None


def read_slice(thing: Mapping[str, Any]) -> Slice | None:
    """Read an EndpointSlice; only addresses of pods of its own namespace count, and those that are ready."""
    service = _labels(thing).get("kubernetes.io/service-name")
    if service is None:
        return None
    home = _meta(thing).get("namespace")
    endpoints = list(map(table, _list(thing, "endpoints")))
    ready = sorted({ip for endpoint in endpoints if _is_ready(endpoint, home) for ip in _addresses(endpoint)})
    ports = {str(port.get("name")): port["port"] for port in map(table, _list(thing, "ports")) if _is_tcp(port)}
    found = ((name, tuple(Address(ip, number) for ip in ready)) for name, number in sorted(ports.items()))
    return Slice(service, tuple(found), frozenset(ip for endpoint in endpoints for ip in _addresses(endpoint)))


def read_users(thing: Mapping[str, Any]) -> Users | None:
    """Read whom a tenant admits; one line that is odd, or says a user again, makes all of them worth nothing."""
    holder, data = _holder(_labels(thing)), table(thing.get("data"))
    passwords, said = _decoded(data.get("htpasswd")), _decoded(data.get("claims"))
    claims = () if said is None else read_claims(said)
    if holder is None or passwords is None or claims is None or ("claims" in data and said is None):
        return None
    lines = passwords.splitlines()
    names = [match[1] for match in map(HASHED.fullmatch, lines) if match]
    sound = len(names) == len(lines) == len(set(names)) <= MOST_USERS and (names or claims)
    return Users(holder, "".join(f"{line}\n" for line in lines), claims) if sound else None


def _decoded(data: object) -> str | None:
    """Give what a Secret has under a key; None where it has nothing, or nothing that is text."""
    try:
        return base64.b64decode(data, validate=True).decode("ascii") if isinstance(data, str) else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _meta(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    return table(thing.get("metadata"))


def _labels(thing: Mapping[str, Any]) -> Mapping[str, str]:
    return words(_meta(thing).get("labels"))


def _holder(labels: Mapping[str, str]) -> Holder | None:
    owner, tenant = labels.get(OWNER_LABEL), labels.get(TENANT_LABEL)
    return Holder(owner, tenant) if owner and tenant else None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _list(thing: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = thing.get(key)
    return value if isinstance(value, list) else ()


def _bytes(text: str) -> int | None:
    return int(text) if BYTES.fullmatch(text) else None


def _ports(text: str) -> tuple[str, ...]:
    if len(text) > LONGEST_WEB:
        return ()
    found = tuple(filter(_is_name, text.split(",")))
    return found if len(found) <= MOST_PORTS else ()


def _mounts(text: str) -> tuple[tuple[str, str], ...]:
    try:
        found = tuple(sorted(words(json.loads(text)).items()))
    except (ValueError, RecursionError):
        return ()
    # JSON may write half a character, which no page can hold
    return found if all(word.isascii() and word.isprintable() for pair in found for word in pair) else ()


def _is_tcp(port: Mapping[str, Any]) -> bool:
    number = port.get("port")
    return port.get("protocol", "TCP") == "TCP" and type(number) is int and 0 < number < 65536  # noqa: PLR2004 - TCP's


def _is_ready(endpoint: Mapping[str, Any], home: object) -> bool:
    pod = table(endpoint.get("targetRef"))
    own = pod.get("kind") == "Pod" and pod.get("namespace") == home
    return own and table(endpoint.get("conditions")).get("ready") is True


def _addresses(endpoint: Mapping[str, Any]) -> Iterator[str]:
    for address in _list(endpoint, "addresses"):
        try:
            yield str(ipaddress.ip_address(address))
        except ValueError:
            continue
