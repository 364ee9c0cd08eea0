"""A network of its own for one program: ``arena.py PLAN COMMAND...``, run in fresh namespaces.

PLAN is JSON: ``dns`` (seconds after which loopback's port 53 answers, null: never), ``tcp`` (port to the seconds from
and until which it accepts), ``mute`` (ports that drop every packet). Seconds count from the start of COMMAND.
"""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

HOST = "127.0.0.1"


def answer_datagrams() -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((HOST, 53))
    while True:
        data, peer = sock.recvfrom(512)
        sock.sendto(data, peer)


def answer_streams() -> None:
    with socket.create_server((HOST, 53)) as server:
        while True:
            client, _ = server.accept()
            client.sendall(client.recv(512))
            client.close()


def accept(port: int, seconds: float | None) -> None:
    end = time.monotonic() + (3600 if seconds is None else seconds)
    with socket.create_server((HOST, port)) as server:
        server.settimeout(0.01)
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                server.accept()[0].close()


def mute(port: int) -> list[socket.socket]:
    """Fill a listener's queue: the kernel drops what comes then."""
    server = socket.create_server((HOST, port), backlog=0)
    waiting = []
    for _ in range(4):
        client = socket.socket()
        client.settimeout(0)
        client.connect_ex((HOST, port))
        waiting.append(client)
    return [server, *waiting]


def later(seconds: float, work: Callable[..., object], *arguments: object) -> None:
    timer = threading.Timer(seconds, work, arguments)
    timer.daemon = True
    timer.start()


def main(plan: dict[str, Any], command: list[str]) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    held = [mute(port) for port in plan.get("mute", [])]
    if (dns := plan.get("dns", 0)) is not None:
        later(dns, answer_datagrams)
        later(dns, answer_streams)
    for port, (begin, end) in plan.get("tcp", {}).items():
        later(begin, accept, int(port), None if end is None else end - begin)
    time.sleep(0.1)
    status = subprocess.run(command, check=False).returncode
    del held
    return status


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
