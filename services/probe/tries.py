"""One try with a real socket, and what came of it."""

import asyncio
import errno
import os
import socket
from dataclasses import dataclass

from probe.targets import Target, is_address

TRY_SECONDS = 2.0
"""After which no answer means closed: time for the kernel to repeat a first packet that was lost (after 1 s)."""

NAME_SECONDS = 5.0
"""For a name: the resolver asks a nameserver that does not answer twice."""

OUR_TROUBLE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRINUSE})
"""Errors that say nothing about the network."""

NO_SUCH_NAME = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})
ABSENT = "no such name"

RESOLVER = {"RES_OPTIONS": "timeout:1 attempts:2"}
"""For glibc's resolver, which by itself waits five seconds for each answer."""

_NAME = b"".join(len(label).to_bytes() + label for label in b"kubernetes default svc cluster local".split()) + b"\0"
QUESTION = b"gr\x01\x00\x00\x01" + bytes(6) + _NAME + b"\x00\x01\x00\x01"
"""In DNS: the address of kubernetes.default.svc.cluster.local. Any answer will do, also that there is no such name."""


@dataclass(frozen=True)
class Answer:
    """What came of a try: open, closed or unknown, and how that showed."""

    found: str
    how: str


async def attempt(target: Target, addresses: tuple[str, ...], seconds: float) -> Answer:
    """Try all *addresses* of *target*: open when one is, closed when none answers in *seconds*."""
    answers = await asyncio.gather(*(_reach(target, address, seconds) for address in addresses))
    return next((answer for found in ("open", "unknown") for answer in answers if answer.found == found), answers[0])


async def resolve(target: Target, domain: str | None) -> tuple[str, ...] | Answer:
    """Give the addresses of *target*, or what it means that there are none.

    A Service is looked up in the cluster's *domain* alone: of another, cluster DNS may not know that there is none.
    """
    if is_address(target.host):
        return (target.host,)
    name = f"{target.host}.{domain}." if domain and target.host.endswith(".svc") else target.host
    try:
        async with asyncio.timeout(NAME_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(name, target.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return Answer("unknown", "its name is not resolved")
    except OSError as error:
        absent = error.errno in NO_SUCH_NAME
        return Answer("closed" if absent and target.optional else "unknown", ABSENT if absent else str(error.strerror))
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


async def _reach(target: Target, address: str, seconds: float) -> Answer:
    try:
        async with asyncio.timeout(seconds):
            return await _talk(target, address)
    except TimeoutError:
        return Answer("closed", f"no answer in {seconds:g} s")
    except OSError as error:
        found = "unknown" if error.errno in OUR_TROUBLE else "closed"
        return Answer(found, os.strerror(error.errno or 0).lower())


async def _talk(target: Target, address: str) -> Answer:
    """Connect, and where a question must be answered, ask it. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_DGRAM if target.protocol == "UDP" else socket.SOCK_STREAM
    loop = asyncio.get_running_loop()
    with socket.socket(family, kind) as sock:
        sock.settimeout(0)
        await loop.sock_connect(sock, (address, target.port))
        if not target.asks:
            return Answer("open", "connected")
        await loop.sock_sendall(sock, QUESTION if kind == socket.SOCK_DGRAM else len(QUESTION).to_bytes(2) + QUESTION)
        heard = await loop.sock_recv(sock, 512)
        return Answer("open", "answered") if heard else Answer("closed", "hung up")
