"""A tenant's index: what there is to see and how to get it by SSH, as one page of HTML without a script."""

import shlex
from collections.abc import Iterable, Iterator
from html import escape

from routes.hosts import Site, is_host, port_label, storage_label, storage_path
from routes.view import Port, Storage, Tenant

STYLE = """\
:root{color-scheme:light dark}
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem}
h2{font-size:1.2rem;margin-top:2rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}
caption{text-align:left;padding-bottom:.5rem}
th,td{text-align:left;vertical-align:top;padding:.5rem 1rem .5rem 0;border-bottom:1px solid #888}
code{font:.9rem/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
a{display:inline-block;padding:.25rem 0}
"""
"""Colours are the reader's own, light or dark, so that contrast is what the reader has chosen."""


def page(tenant: Tenant, site: Site) -> str:
    """Write the index of *tenant*."""
    title = f"{escape(tenant.name)} on {escape(site.host)}"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{title}</title>",
        f"<style>\n{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{title}</h1>",
        *_storages(tenant, site),
        *_ports(tenant, site),
        *_ssh(tenant),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _storages(tenant: Tenant, site: Site) -> Iterator[str]:
    yield "<h2>Storages</h2>"
    rows = [_storage_row(tenant.namespace, storage, site) for storage in tenant.storages]
    if not rows:
        yield "<p>No storage of this tenant has a browser.</p>"
        return
    yield from _table("What is in them can be looked at and downloaded.", ("Storage", "Size", "Access", "State"), rows)


def _storage_row(namespace: str, storage: Storage, site: Site) -> tuple[str, ...]:
    label = storage_label(storage.name, namespace)
    url = site.url(label, f"{storage_path(storage.name, namespace)}/") if is_host(label) else None
    access = "read and upload" if storage.upload is not None else "read only"
    return _link(url, storage.name), escape(storage.size or "unknown"), access, _state(bool(storage.endpoints))


def _ports(tenant: Tenant, site: Site) -> Iterator[str]:
    rows = [_port_row(tenant.namespace, port, site) for port in tenant.ports]
    if rows:
        yield "<h2>Units</h2>"
        yield from _table("Ports of units that a browser can open.", ("Unit", "Port", "State"), rows)


def _port_row(namespace: str, port: Port, site: Site) -> tuple[str, ...]:
    label = port_label(port.name, port.unit, namespace)
    return (
        escape(port.unit),
        _link(site.url(label) if is_host(label) else None, f"{port.name} of {port.unit}"),
        _state(bool(port.endpoints)),
    )


def _ssh(tenant: Tenant) -> Iterator[str]:
    """Say how to get the same files with the ssh_config that units' users have."""
    rows = [_ssh_row(tenant.name, *mount) for mount in tenant.mounts]
    if rows:
        yield "<h2>The same by SSH</h2>"
        about = "For large files; names of units are those of your ssh_config."
        yield from _table(about, ("Storage", "Copy with", "Look with"), rows)


def _ssh_row(tenant: str, storage: str, unit: str, path: str) -> tuple[str, ...]:
    host = f"{unit}.{tenant}"
    copy = shlex.join(["rsync", "-a", "--partial", f"{host}:{path}/", f"{storage}/"])
    plain = shlex.join(["scp", "-r", f"{host}:{path}", storage])
    look = shlex.join(["sftp", f"{host}:{path}"])
    return escape(storage), f"{_code(copy)}<br>{_code(plain)}", _code(look)


def _table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Write a table that a narrow screen can move sideways; the first cell of a row names it."""
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
    yield f"<table>\n<caption>{escape(caption)}</caption>"
    yield "<thead><tr>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead>\n<tbody>"
    for first, *others in rows:
        yield f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others) + "</tr>"
    yield "</tbody>\n</table>\n</div>"


def _link(url: str | None, words: str) -> str:
    return f'<a href="{escape(url)}">{escape(words)}</a>' if url else escape(words)


def _state(ready: bool) -> str:  # noqa: FBT001 - the one thing that it tells
    return "ready" if ready else "not ready"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
