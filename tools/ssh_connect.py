"""ProxyCommand for OpenSSH: reach HOST:PORT through an HTTP CONNECT proxy, and end as soon as either side does.

    ProxyCommand python3 ssh_connect.py PROXYHOST:PORT %h %p

Needs Python and nothing else, on Linux, macOS and Windows. Unlike common `nc` it does not linger when the unit goes.
With --hand-over, on Linux and macOS, it gives the connection to ssh and is gone: nothing is copied in between.

    ProxyCommand python3 ssh_connect.py --hand-over PROXYHOST:PORT %h %p
    ProxyUseFdpass yes
"""

import array
import os
import socket
import sys
import threading

CONNECT_SECONDS = 10.0
"""To reach the proxy and to get its answer."""

GREETING_SECONDS = 15.0
"""For sshd's first word before the connection is handed over: ssh minds no time of its own while it waits for us."""

LINGER_SECONDS = 2.0
"""For the unit's last bytes once our input has ended."""

HEAD_LIMIT = 16 * 1024
"""Bytes of the proxy's answer before the tunnel begins."""

CHUNK = 64 * 1024

END_OF_HEAD = b"\r\n\r\n"

HAND_OVER = "--hand-over"

REFUSALS = {
    "404": "no such unit or it is not up: {host}",
    "429": "too many connections to {host} or from your address: end some, or try again in ten seconds",
    "503": "{host}: its tunnel server is away; try again in some seconds",
}
"""What the entrance's statuses mean."""

USAGE = f"usage: ssh_connect.py [{HAND_OVER}] PROXYHOST:PORT HOST PORT\n"


class RefusedError(Exception):
    """There is no tunnel; the message says why and what to do."""


def address(text: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[v6]:port``.

    Raises:
        RefusedError: *text* is neither.

    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise RefusedError(f"{text!r} is not PROXYHOST:PORT (an IPv6 address goes in brackets: [::1]:1337)")
    return host.strip("[]"), int(port)


def connect(proxy: tuple[str, int], host: str, port: str) -> socket.socket:
    """Open a tunnel to *host*:*port*; what the unit says is read from it next, from its first byte.

    Raises:
        RefusedError: the proxy cannot be reached, or does not let us through.

    """
    where = f"{proxy[0]}:{proxy[1]}"
    try:
        tunnel = socket.create_connection(proxy, CONNECT_SECONDS)
        try:
            _ask(tunnel, host, port, where)
        except BaseException:
            tunnel.close()
            raise
    except socket.gaierror:
        raise RefusedError(f"{proxy[0]} has no address: is the name right, and does this network know it?") from None
    except socket.timeout:  # noqa: UP041 - before Python 3.10 it was not TimeoutError, and this runs on users' machines
        raise RefusedError(f"{where} did not answer within {CONNECT_SECONDS:.0f} s") from None
    except UnicodeEncodeError:
        raise RefusedError(f"{host!r} is not a host name") from None
    except UnicodeError:
        raise RefusedError(f"{proxy[0]!r} is not a host name") from None
    except OSError as error:
        raise RefusedError(f"cannot reach {where}: {error.strerror or error}") from None
    tunnel.settimeout(None)
    return tunnel


def _ask(tunnel: socket.socket, host: str, port: str, where: str) -> None:
    tunnel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tunnel.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("ascii"))
    _must_be_open(_answer(tunnel), host, where)


def _answer(tunnel: socket.socket) -> bytes:
    """Read the head of the proxy's answer and not a byte behind it: those are for whoever takes the tunnel."""
    got = b""
    while not got.endswith(END_OF_HEAD) and len(got) <= HEAD_LIMIT:
        seen = tunnel.recv(CHUNK, socket.MSG_PEEK)
        if not seen:
            break
        end = (got + seen).find(END_OF_HEAD)
        got += tunnel.recv(len(seen) if end < 0 else end + len(END_OF_HEAD) - len(got))
    return got


def _must_be_open(head: bytes, host: str, where: str) -> None:
    line = head.split(b"\r\n")[0].decode("ascii", "replace")
    words = line.split(" ")
    status = words[1] if len(words) > 1 and words[0].startswith("HTTP/1.") else ""
    if status in REFUSALS:
        raise RefusedError(REFUSALS[status].format(host=host))
    if not status:
        raise RefusedError(f"{where} closed the connection or is no HTTP proxy")
    if not status.startswith("2"):
        raise RefusedError(f"{where} refused {host}: {line[:200]}")


def hand_over(tunnel: socket.socket) -> int:
    """Give *tunnel* to ssh, which asked by ProxyUseFdpass; return 0, or 1 where the unit ended before its first byte.

    Raises:
        RefusedError: sshd does not greet, or our output is not the socket on which ssh waits for it.

    """
    tunnel.settimeout(GREETING_SECONDS)
    try:
        if not tunnel.recv(1, socket.MSG_PEEK):
            return 1
    except socket.timeout:  # noqa: UP041 - see connect
        raise RefusedError(f"its sshd did not greet within {GREETING_SECONDS:.0f} s; try again") from None
    except OSError:
        return 1
    tunnel.settimeout(None)
    try:
        with socket.socket(fileno=os.dup(1)) as ssh:
            ssh.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [tunnel.fileno()]))])
    except (AttributeError, OSError):
        raise RefusedError(f"{HAND_OVER} needs `ProxyUseFdpass yes` beside it, and Linux or macOS") from None
    return 0


def copy(tunnel: socket.socket) -> int:
    """Copy both ways until either side ends; return 0, or 1 where the unit ended before its first byte."""
    threading.Thread(target=_upload, args=(tunnel,), daemon=True).start()
    received = 0
    while True:
        try:
            data = tunnel.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            break
        received += len(data)
        _write(data)
    return 0 if received else 1


def _upload(tunnel: socket.socket) -> None:
    try:
        while True:
            data = os.read(0, CHUNK)
            if not data:
                break
            tunnel.sendall(data)
        tunnel.shutdown(socket.SHUT_WR)
    except OSError:
        _leave(0)  # one of the two is gone, so nobody waits for more
    threading.Timer(LINGER_SECONDS, _leave, (0,)).start()


def _write(data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(1, view) :]
    except OSError:
        _leave(0)  # ssh is gone


def _leave(code: int) -> None:
    # Not sys.exit: the other thread waits in a read which nothing but the end of the process interrupts on Windows.
    os._exit(code)


def main(argv: list[str]) -> int:
    """Run as ssh's ProxyCommand; 0 after an ordinary end."""
    handed = argv[:1] == [HAND_OVER]
    proxy, *target = argv[handed:] or [""]
    if len(target) != 2:  # noqa: PLR2004 - host and port
        sys.stderr.write(USAGE)
        return 2
    try:
        with connect(address(proxy), *target) as tunnel:
            code = hand_over(tunnel) if handed else copy(tunnel)
    except RefusedError as refused:
        sys.stderr.write(f"ssh_connect: {refused}\n")
        return 1
    if code:
        sys.stderr.write(f"ssh_connect: {target[0]} closed the connection at once: refused, or its sshd is down\n")
    return code


if __name__ == "__main__":
    sys.stdout.flush()
    _leave(main(sys.argv[1:]))
