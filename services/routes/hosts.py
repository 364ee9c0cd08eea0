"""The host of everything that the proxy leads to: one label below the main host, so that one certificate serves all."""

from typing import NamedTuple

LABEL_LENGTH = 63
"""Of one label of a host name."""

ENCODED = "xn--"
"""Labels that begin so are read as another alphabet's."""


class Site(NamedTuple):
    """Where clients find the proxy."""

    host: str
    port: int

    def url(self, label: str, path: str = "/") -> str:
        """Give the address of what has the host *label*."""
        port = "" if self.port == 443 else f":{self.port}"  # noqa: PLR2004 - that of HTTPS
        return f"https://{label}.{self.host}{port}{path}"

    def domain(self, label: str) -> str:
        """Give the host of *label*, without a port."""
        return f"{label}.{self.host}"


def storage_label(storage: str, namespace: str) -> str:
    """Give the label of a storage."""
    return f"{storage}--{namespace}"


def port_label(port: str, unit: str, namespace: str) -> str:
    """Give the label of a unit's port."""
    return f"{port}--{unit}--{namespace}"


def any_label(namespace: str) -> str:
    """Give what Envoy reads as the label of anything in *namespace* that has no virtual host of its own."""
    return f"*--{namespace}"


def is_host(label: str) -> bool:
    """Say whether *label* can be one of a host."""
    return len(label) <= LABEL_LENGTH and not label.startswith(ENCODED)


def storage_path(storage: str, namespace: str) -> str:
    """Give the path under which a storage has its files, the same for every reader."""
    return f"/storage/{namespace}/{storage}"
