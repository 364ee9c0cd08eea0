"""What browsers find of a stack, by tenant, and how to look at it from a terminal."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tools.shell import ToolError

if TYPE_CHECKING:
    from stacks.resolve import Stack
    from tools.stack.workspace import Workspace


@dataclass
class Pages:
    """The addresses of one tenant; none of them lets anybody in without a password."""

    index: str | None = None
    """None where nobody may sign in."""
    storages: dict[str, str] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)
    """By ``<port>.<unit>``."""


def by_tenant(outputs: Mapping[str, Any]) -> dict[str, Pages]:
    """Sort the addresses among a stack's *outputs* by tenant."""
    found: dict[str, Pages] = {tenant: Pages(url) for tenant, url in outputs.get("pages", {}).items()}
    for kind in ("storages", "ports"):
        for alias, url in outputs.get(kind, {}).items():
            name, _, tenant = alias.rpartition(".")
            getattr(found.setdefault(tenant, Pages()), kind)[name] = url
    return found


def chosen(outputs: Mapping[str, Any], tenant: str) -> dict[str, Pages]:
    """Give the pages of *tenant*, or of all where it is empty. Raises ToolError for one that has none."""
    if "browser" not in outputs:
        raise ToolError("the stack shows no pages: its platform has no proxy (gpu-runtime:platform.browser)")
    found = by_tenant(outputs)
    if tenant and tenant not in found:
        raise ToolError(f"no tenant {tenant!r} has pages; there are {', '.join(found) or 'none'}")
    return {name: pages for name, pages in found.items() if tenant in ("", name)}


def as_data(found: Mapping[str, Pages]) -> dict[str, Any]:
    """Give the same for programs."""
    return {tenant: asdict(pages) for tenant, pages in found.items()}


def lines(found: Mapping[str, Pages]) -> Iterator[str]:
    """Give a line for each address, what a tenant has below its index."""
    for tenant, pages in found.items():
        yield f"{tenant}  {pages.index or '(nobody may sign in)'}"
        kinds = (("storage", pages.storages), ("port", pages.ports))
        yield from (f"  {kind} {name}  {url}" for kind, those in kinds for name, url in those.items())


def invitation(workspace: "Workspace", stack: "Stack", outputs: Mapping[str, Any], node: str) -> tuple[str, str] | None:
    """Say how to look at the first tenant's index on a rig at address *node*: words, and a command that works.

    None where there is nothing to look at.
    """
    said, first = stack.config.browser, next(iter(stack.access.values()), None)
    service = getattr(said, "service", None)
    if said is None or first is None or service is None or service.node_port is None:
        return None
    page, user = outputs["pages"][first.tenant], first.users[0]
    words = f"pages: `make urls` lists them. For a browser of this machine: `make browse`. As {user}, to {page}:"
    trust = f" --cacert {os.path.relpath(workspace.browser_ca)}" if "ca" in outputs["browser"] else ""
    of = f"TENANT={first.tenant}" + (f" USER={user}" if len(first.users) > 1 else "")
    # by standard input: what a command line says, everybody on the machine can read
    signed = f'printf \'user = "{user}:%s"\' "$(make -s password {of})"'
    return words, f"{signed} | curl -K -{trust} --connect-to ::{node}:{service.node_port} {page}"


def doors(outputs: Mapping[str, Any]) -> tuple[str, int]:
    """Give the host and port at which browsers look for the proxy. Raises ToolError where there is none."""
    if "browser" not in outputs:
        raise ToolError("the stack shows no pages: its platform has no proxy (gpu-runtime:platform.browser)")
    at = urlsplit(outputs["browser"]["url"])
    return at.hostname or "", at.port or 443
