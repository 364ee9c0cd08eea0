"""Typed values that a stack file is made of; every refusal says what would be right."""

import ipaddress
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from lightkube.utils.quantity import parse_quantity
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from typing_extensions import override

Manifest = dict[str, Any]
"""A Kubernetes object as plain data in Kubernetes' own words."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Model(BaseModel):
    """Refuse unknown keys, freeze after parsing, read camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


NAME_PATTERN = re.compile(r"[a-z](-?[a-z0-9]+)*")
NAME_LENGTH = 40
"""So that the longest derived name, ``prepare-<name>-<digest>``, stays within a DNS label (63)."""

HOST_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
ENV_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PORT_NAME_PATTERN = re.compile(r"(?=[a-z0-9-]{1,15}$)(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?")
IMAGE_PATTERN = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")
USER_PATTERN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def _name(value: str) -> str:
    if len(value) > NAME_LENGTH:
        msg = f"is {len(value)} characters long; at most {NAME_LENGTH} are allowed"
        raise ValueError(msg)
    if not NAME_PATTERN.fullmatch(value):
        msg = "must be lower-case letters, digits and single '-', start with a letter and end with a letter or digit"
        raise ValueError(msg)
    return value


def matching(pattern: re.Pattern[str], advice: str) -> AfterValidator:
    """Give a validator that refuses with *advice* what *pattern* does not match as a whole."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(advice)
        return value

    return AfterValidator(check)


def quantity(value: str) -> Decimal:
    """Read a Kubernetes quantity such as ``64Gi`` or ``500m`` as a number.

    Raises ValueError when *value* is no quantity.
    """
    parsed = parse_quantity(value)
    if parsed is None:
        msg = "is no quantity"
        raise ValueError(msg)
    return parsed


def bytes_of(value: str) -> int:
    """Read a memory or storage quantity as whole bytes."""
    return int(quantity(value))


def _positive_quantity(value: str) -> str:
    advice = "must be a quantity above zero such as 64Gi, 2Ti or 500m"
    try:
        amount = quantity(value)
    except ValueError:
        raise ValueError(advice) from None
    if amount <= 0:
        raise ValueError(advice)
    return value


def _scalar(value: object) -> object:
    """Let YAML's bare numbers stand where Kubernetes wants a quantity (``cpu: 8``)."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _number(value: object) -> object:
    """Refuse YAML's truth values, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number; true and false are none")  # noqa: TRY004 - a refusal, as pydantic has it
    return value


MAPPED_V4 = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4 written as IPv6: API servers refuse it as a part of ::/0, and packets to it leave as IPv4."""


CIDR_PATTERN = re.compile(r"[0-9A-Fa-f.:]+(/(0|[1-9][0-9]{0,2}))?")
"""An address and a length: no zone, and no netmask, whose meaning depends on who reads it."""


def _cidr(value: str) -> str:
    if not CIDR_PATTERN.fullmatch(value):
        msg = "must be a CIDR range such as 10.0.0.0/8 or fd00::/8"
        raise ValueError(msg)
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        msg = f"must be a CIDR range such as 10.0.0.0/8 or fd00::/8: {error}"
        raise ValueError(msg) from None
    if network.prefixlen == 0:
        msg = "covers every address; name single ranges"
        raise ValueError(msg)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(MAPPED_V4):
        msg = f"lies in {MAPPED_V4}, which no packet carries; write the IPv4 range itself"
        raise ValueError(msg)
    return str(network)


def plain_address(value: str) -> str:
    """Read an IP address, of either family. Raises ValueError with advice."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        msg = "must be an IP address such as 10.96.0.10 or fd00::a"
        raise ValueError(msg) from None
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        msg = "must be a plain address: IPv4 as such, IPv6 without a zone"
        raise ValueError(msg)
    return str(address)


HIGHEST_ID = 2**31 - 2
"""Highest uid that every file system and user namespace takes."""

Whole = Annotated[int, BeforeValidator(_number)]
"""A whole number. In quotes, too: the engine hands a scalar of the top level over as text (`epoch`)."""
Name = Annotated[str, AfterValidator(_name)]
Quantity = Annotated[str, BeforeValidator(_scalar), AfterValidator(_positive_quantity)]
Cidr = Annotated[str, AfterValidator(_cidr)]
IpAddress = Annotated[str, AfterValidator(plain_address)]
Port = Annotated[Whole, Field(ge=1, le=65535)]
Host = Annotated[str, Field(max_length=253), matching(HOST_PATTERN, "must be a lower-case host name or IPv4 address")]
EnvName = Annotated[str, matching(ENV_PATTERN, "must be a variable name: letters, digits and '_', no leading digit")]
PortName = Annotated[
    str, matching(PORT_NAME_PATTERN, "must be 1 to 15 lower-case letters, digits and '-', with a letter")
]
MountPath = Annotated[
    str,
    matching(re.compile(r"(/[A-Za-z0-9._-]+)+"), "must be an absolute path such as /data: letters, digits, . _ -"),
]
SecretName = Annotated[
    str,
    Field(max_length=253),
    matching(
        re.compile(rf"(?!unit-){HOST_PATTERN.pattern}"),
        "must be the name of a Secret in the tenant's namespace; those that begin with unit- are the platform's own",
    ),
]
UserName = Annotated[str, matching(USER_PATTERN, "must be a login name: lower-case letters, digits, '_' and '-'")]
Image = Annotated[
    str,
    matching(
        re.compile(rf"{IMAGE_PATTERN.pattern}|{NAME_PATTERN.pattern}"),
        "must be a reference by digest (registry/name@sha256:<64 hex digits>) or a name from gpu-runtime:images",
    ),
]
PinnedImage = Annotated[
    str, matching(IMAGE_PATTERN, "must be a reference by digest: registry/name@sha256:<64 hex digits>")
]


def _id(value: int) -> int:
    if not 1 <= value <= HIGHEST_ID:
        raise ValueError(f"must be from 1 to {HIGHEST_ID}; a unit never runs as root")
    return value


Id = Annotated[Whole, AfterValidator(_id)]


class RunAs(Model):
    """The uid and gid that a container runs as; never root."""

    uid: Id = 1000
    gid: Id = 1000

    @override
    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


class UnitRunAs(RunAs):
    """The uid and gid of a unit; root (0) is for a user namespace of its own, which the unit checks."""

    uid: Annotated[Whole, Field(ge=0, le=HIGHEST_ID)] = 1000
    gid: Annotated[Whole, Field(ge=0, le=HIGHEST_ID)] = 1000

    @property
    def is_root(self) -> bool:
        """Say whether any part of it is root's."""
        return 0 in (self.uid, self.gid)


class Resources(Model):
    """CPU and memory of a tenant's container, requested and granted alike."""

    cpu: Quantity
    memory: Quantity

    def requirements(self, **more: str) -> dict[str, Manifest]:
        """Give requests equal to limits, so that no pod takes what another was promised."""
        amounts = {"cpu": self.cpu, "memory": self.memory, **more}
        return requirements(amounts, amounts)


def requirements(requests: Mapping[str, str], limits: Mapping[str, str]) -> dict[str, Manifest]:
    """Give a container's resources: what the scheduler sets aside, and what the kernel lets it take."""
    return {"requests": dict(requests), "limits": dict(limits)}
