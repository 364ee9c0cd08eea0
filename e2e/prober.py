"""The program that tries connections from inside a network namespace: many at once, with the standard library alone.

It reads `{"from": {"4": address or null, ...}, "tries": [[address, port, protocol], ...]}` and prints a list with true
for each that opened: a TCP connection that was made, a UDP datagram that was answered.
"""

import asyncio
import json
import socket
import sys
from typing import Any

SECONDS = 2.5
"""What a try gets: the kernel repeats a first packet that was lost after one second, and again after two more."""

ROUNDS = 2
"""Silence is tried again: a busy machine may be slow. A refusal is an answer."""

AT_ONCE = 150
"""More at once would only wait for each other."""

NAME = b"".join(len(label).to_bytes() + label for label in b"kubernetes default svc cluster local".split()) + b"\0"
QUESTION = b"gr\x01\x00\x00\x01" + bytes(6) + NAME + b"\x00\x01\x00\x01"
"""What every datagram asks: a DNS server answers nothing else."""

RESEND_SECONDS = 0.6


class Answered(asyncio.DatagramProtocol):
    """Tells whether a datagram came back."""

    def __init__(self) -> None:
        self.found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def datagram_received(self, *_: Any) -> None:  # type: ignore[explicit-override]  # Python 3.11 has no such word
        """Take any answer."""
        self._say(opened=True)

    def error_received(self, *_: Any) -> None:  # type: ignore[explicit-override]
        """Take an ICMP refusal."""
        self._say(opened=False)

    def _say(self, *, opened: bool) -> None:
        if not self.found.done():
            self.found.set_result(opened)


async def tcp(address: str, port: int, own: str | None) -> bool:
    """Connect."""
    _, writer = await asyncio.open_connection(address, port, local_addr=(own, 0) if own else None)
    writer.transport.abort()
    return True


async def udp(address: str, port: int, own: str | None) -> bool:
    """Ask until something comes back."""
    loop = asyncio.get_running_loop()
    local = (own, 0) if own else None
    transport, protocol = await loop.create_datagram_endpoint(Answered, remote_addr=(address, port), local_addr=local)
    try:
        while not protocol.found.done():
            transport.sendto(QUESTION)
            await asyncio.wait([protocol.found], timeout=RESEND_SECONDS)
        return protocol.found.result()
    finally:
        transport.close()


async def opens(one: tuple[str, int, str], own: str | None, gate: asyncio.Semaphore) -> bool:
    """Try one address and port."""
    address, port, protocol = one
    async with gate:
        for _ in range(ROUNDS):
            try:
                async with asyncio.timeout(SECONDS):
                    return await (tcp if protocol == "TCP" else udp)(address, port, own)
            except TimeoutError:
                continue
            except OSError:
                return False
    return False


async def main() -> None:
    """Try all."""
    said = json.load(sys.stdin)
    gate = asyncio.Semaphore(AT_ONCE)
    own = {socket.AF_INET: said["from"].get("4"), socket.AF_INET6: said["from"].get("6")}
    tries = [
        opens(tuple(one), own[socket.AF_INET6 if ":" in one[0] else socket.AF_INET], gate) for one in said["tries"]
    ]
    json.dump(await asyncio.gather(*tries), sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
