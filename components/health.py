"""A user's own probes: whether the program has started, serves, and lives. They never ask SSH or the tunnel."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from components.model import PORT_NAME_PATTERN, Manifest, Model, Whole, matching

HIGHEST_PORT = 65535
LONGEST = 3600
"""Seconds: a probe that asks less often than hourly tells nobody anything in time."""


def _port(value: object) -> int | str:
    if type(value) is int and 1 <= value <= HIGHEST_PORT:
        return value
    if isinstance(value, str) and PORT_NAME_PATTERN.fullmatch(value):
        return value
    raise ValueError(f"must be a port from 1 to {HIGHEST_PORT}, or the name of one of the unit's ports")


ProbePort = Annotated[int | str, BeforeValidator(_port)]
Path = Annotated[str, Field(max_length=1024), matching(re.compile(r"/[!-~]*"), "must be a path such as /healthz")]
Word = Annotated[str, Field(min_length=1)]
Seconds = Annotated[Whole, Field(ge=1, le=LONGEST)]


class HttpGetSpec(Model):
    """A GET that any answer below 400 satisfies; there is no host: the kubelet asks the pod itself."""

    path: Path = "/"
    port: ProbePort
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"


class TcpSocketSpec(Model):
    """A connection that the program accepts."""

    port: ProbePort


class ExecSpec(Model):
    """A program in the unit's container that ends with 0."""

    command: Annotated[tuple[Word, ...], Field(min_length=1)]


class CheckSpec(Model):
    """One probe: exactly one way to ask, and how often; the numbers that are not said are Kubernetes' own."""

    http_get: HttpGetSpec | None = None
    tcp_socket: TcpSocketSpec | None = None
    execute: ExecSpec | None = Field(default=None, alias="exec")
    initial_delay_seconds: Annotated[Whole, Field(ge=0, le=LONGEST)] = 0
    period_seconds: Seconds = 10
    timeout_seconds: Seconds = 1
    failure_threshold: Annotated[Whole, Field(ge=1, le=1000)] = 3
    success_threshold: Annotated[Whole, Field(ge=1, le=100)] = 1

    @property
    def ways(self) -> int:
        """Count the ways to ask; one is right."""
        return sum(way is not None for way in (self.http_get, self.tcp_socket, self.execute))

    @property
    def port(self) -> int | str | None:
        """Give the port that is asked; None for a program."""
        asked = self.http_get or self.tcp_socket
        return asked.port if asked else None


class ProbesSpec(Model):
    """The probes of a unit's own container."""

    readiness: CheckSpec | None = None
    liveness: CheckSpec | None = None
    startup: CheckSpec | None = None

    @property
    def checks(self) -> dict[str, CheckSpec]:
        """Give those that are said, by name."""
        said = {"readiness": self.readiness, "liveness": self.liveness, "startup": self.startup}
        return {name: check for name, check in said.items() if check}

    @property
    def manifest(self) -> Manifest:
        """Give the container's fields in Kubernetes' words."""
        return {
            f"{name}Probe": check.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for name, check in self.checks.items()
        }
