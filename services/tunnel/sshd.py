"""Whether the unit's sshd is there: what a login would be greeted with."""

import socket

BANNER_BYTES = 255
"""The longest greeting of an SSH server (RFC 4253)."""


def unanswered(port: int) -> str:
    """Say why no SSH server greets on loopback's *port*; empty where one does."""
    try:
        with socket.create_connection(("127.0.0.1", port), 0.5) as connection, connection.makefile("rb") as lines:
            greeting = lines.readline(BANNER_BYTES)
    except ConnectionRefusedError:
        return f"sshd is not up: nothing answers on 127.0.0.1:{port}"
    except OSError as error:
        return f"sshd does not greet on 127.0.0.1:{port}: {error}"
    if greeting.startswith(b"SSH-"):
        return ""
    return f"no SSH server greets on 127.0.0.1:{port}, but {greeting.decode(errors='replace').strip()!r:.80}"
