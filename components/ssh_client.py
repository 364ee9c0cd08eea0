"""What a client needs to reach a unit: a stanza, a one-liner and a known_hosts line."""

from collections.abc import Mapping
from dataclasses import dataclass

KEEPALIVE_SECONDS = 15
"""A proxy that drops silently is noticed after four of these; frps and NATs keep idle connections longer."""

CONNECT_TIMEOUT_SECONDS = 15
"""frps answers before it reaches the unit, so that only this ends an attempt at a unit that hangs."""

CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes128-ctr"
"""The client's order counts, and OpenSSH up to 9.8 begins with ChaCha20, which no processor computes in hardware."""

KNOWN_HOSTS = "~/.ssh/known_hosts.gpu-runtime"
"""Where a stanza that is handed out expects the host keys: a file of its own, so that nobody's other one is touched."""

CONNECTOR = "~/.ssh/ssh_connect.py"
"""Where users put our own ProxyCommand, a single file, where the system has no netcat that can CONNECT."""

SSH_PORT = 22
"""The port clients name in CONNECT; frps routes by host alone."""


@dataclass(frozen=True)
class Access:
    """How clients reach one unit."""

    alias: str
    """``<unit>.<tenant>``, what people type."""
    user: str
    host: str
    """``<unit>.<namespace>.<suffix>``, never resolved by the client."""
    connect_host: str
    connect_port: int
    host_key: str
    """``ssh-ed25519 AAAA...``."""

    @property
    def known_hosts(self) -> str:
        """Give the line that pins the unit's host key."""
        return f"{self.host} {self.host_key}"

    @property
    def netcat(self) -> str:
        """Give the ProxyCommand for OpenBSD netcat, which most systems carry."""
        return f"nc -X connect -x {self.connect_host}:{self.connect_port} %h %p"

    @property
    def command(self) -> str:
        """Give the one-liner; host names are validated, so nothing in it needs a quote but the ProxyCommand."""
        return f"ssh -o ProxyCommand='{self.netcat}' {self.user}@{self.host}"

    @property
    def connector(self) -> str:
        """Give the ProxyCommand that needs Python alone; it also ends as soon as either side does."""
        return f"python3 {CONNECTOR} {self.connect_host}:{self.connect_port} %h %p"

    def handout(self) -> str:
        """Give all that a user needs, as one text: stanza, host key, the other ProxyCommand as a comment."""
        return (
            f"# {self.alias}: this block goes into ~/.ssh/config, and the next line, without '# ', into {KNOWN_HOSTS}\n"
            f"# {self.known_hosts}\n"
            f"{self.stanza(known_hosts=KNOWN_HOSTS)}"
            "    # without an nc that knows -X (Windows, some Linux), in place of the ProxyCommand above:\n"
            f"    # ProxyCommand {self.connector}\n"
        )

    def stanza(
        self, *, identity: str = "~/.ssh/id_ed25519", known_hosts: str, proxy: Mapping[str, str] | None = None
    ) -> str:
        """Give the ssh_config block of the unit; paths as the client's ssh reads them, *proxy* in place of netcat."""
        lines = {
            "User": self.user,
            "HostName": self.host,
            "Port": SSH_PORT,
            "IdentityFile": identity,
            "IdentitiesOnly": "yes",
            **(proxy or {"ProxyCommand": self.netcat}),
            "UserKnownHostsFile": known_hosts,
            "StrictHostKeyChecking": "yes",
            "ServerAliveInterval": KEEPALIVE_SECONDS,
            "ServerAliveCountMax": 4,
            "ConnectTimeout": CONNECT_TIMEOUT_SECONDS,
            "Ciphers": CIPHERS,
        }
        return "\n".join((f"Host {self.alias}", *(f"    {key} {value}" for key, value in lines.items()), ""))
