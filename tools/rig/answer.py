"""The program of test hosts: every TCP connection and every UDP datagram is answered with the word `outside`.

Run as a script with the standard library alone: `ADDRESS... tcp PORT... udp PORT...`. It ends well once all its doors
are open, and goes on answering from a process of its own; else it says what is wrong.
"""

import asyncio
import os
import resource
import socket
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import suppress

WORD = b"outside\n"
BACKLOG = 1024
SECONDS = 5
"""What a client gets for reading its answer and closing."""


def reply(one: socket.socket) -> None:
    """Answer a datagram from the address that was asked: a connected client takes no other."""
    with suppress(OSError):  # its sender went away
        _, sender = one.recvfrom(1)
        one.sendto(WORD, sender)


async def answer(reader: StreamReader, writer: StreamWriter) -> None:
    """Say the word, then wait for the client's end: closing on unread words would take ours back."""
    with suppress(OSError, TimeoutError):  # it went away
        writer.write(WORD)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), SECONDS)
    writer.close()


def doors(kind: socket.SocketKind, addresses: list[str], ports: list[int]) -> Iterator[socket.socket]:
    """Open a door for each address and port."""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for port in ports:
            one = socket.socket(family, kind)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((address, port))
            one.settimeout(0)
            yield one


async def serve(tcp: list[socket.socket], udp: list[socket.socket]) -> None:
    """Answer at all doors until killed."""
    for one in tcp:
        await asyncio.start_server(answer, sock=one, backlog=BACKLOG)
    for one in udp:
        asyncio.get_running_loop().add_reader(one, reply, one)
    await asyncio.Event().wait()


def main(words: list[str]) -> int:
    """Open the doors, and answer from a process that this one leaves behind."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    first, second = words.index("tcp"), words.index("udp")
    addresses, ports, udp_ports = words[:first], words[first + 1 : second], words[second + 1 :]
    tcp = list(doors(socket.SOCK_STREAM, addresses, list(map(int, ports))))
    udp = list(doors(socket.SOCK_DGRAM, addresses, list(map(int, udp_ports))))
    for one in tcp:
        one.listen(BACKLOG)
    if os.fork():
        return 0
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # else whoever started this waits for the end of its output
        os.dup2(nothing, number)
    asyncio.run(serve(tcp, udp))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
