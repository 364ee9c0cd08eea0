"""The client's side of a stack on a rig: ssh_config, known_hosts, and the proof that a login works."""

import subprocess
import sys
import time
from typing import Any

from components.ssh_client import Access
from tools.shell import HEARTBEAT_SECONDS, ToolError, say
from tools.ssh_connect import HAND_OVER
from tools.stack.engine import REPOSITORY
from tools.stack.workspace import Workspace, replace

CONNECT = REPOSITORY / "tools" / "ssh_connect.py"
LOGIN_SECONDS = 120
"""From the end of `up`, when the pod is ready, to a login: a second as a rule; this is for a busy machine."""

DENIED_SECONDS = 10
"""A unit that answers and refuses the key will not change its mind; keys reach a new pod with its start."""


def write_client_files(workspace: Workspace, outputs: dict[str, Any]) -> list[str]:
    """Write ssh_config and known_hosts for every unit with SSH, and whom browsers trust; give the aliases in order."""
    accesses = [_access(alias, unit) for alias, unit in outputs.get("units", {}).items() if "host" in unit]
    replace(workspace.known_hosts, "".join(f"{access.known_hosts}\n" for access in accesses))
    replace(workspace.ssh_config, "\n".join(_stanza(workspace, access) for access in accesses))
    if authority := outputs.get("browser", {}).get("ca"):
        replace(workspace.browser_ca, authority)
    return [access.alias for access in accesses]


def handouts(outputs: dict[str, Any], unit: str = "") -> str:
    """Give the text for the users of *unit* (``<unit>.<tenant>``), or of all. Raises ToolError for an unknown one."""
    there = {alias: _access(alias, said) for alias, said in outputs.get("units", {}).items() if "host" in said}
    if unit and unit not in there:
        raise ToolError(f"no unit {unit} takes logins in this stack; there are {', '.join(there) or 'none'}")
    return "\n".join(access.handout() for alias, access in there.items() if unit in ("", alias))


def _access(alias: str, unit: dict[str, Any]) -> Access:
    connect = unit["connect"]
    return Access(alias, unit["user"], unit["host"], connect["host"], int(connect["port"]), unit["hostKey"])


def _stanza(workspace: Workspace, access: Access) -> str:
    """Name files by absolute paths, and our own ProxyCommand: netcat may be missing, and ends later than it should."""
    proxy = through(access.connect_host, access.connect_port)
    return access.stanza(identity=f'"{workspace.identity}"', known_hosts=f'"{workspace.known_hosts}"', proxy=proxy)


def through(host: str, port: int) -> dict[str, str]:
    """Give the words of ssh_config that lead through the entrance at *host*:*port*, by our own ProxyCommand."""
    command = f'"{sys.executable}" "{CONNECT}" {HAND_OVER} {host}:{port} %h %p'
    return {"ProxyCommand": command, "ProxyUseFdpass": "yes"}


def ssh(workspace: Workspace, alias: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run *command* in a unit."""
    argv = ["ssh", "-F", str(workspace.ssh_config), "-o", "BatchMode=yes", alias, "--", *command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def first_word(said: str) -> str:
    """Give the first line of ssh's complaint, where the ProxyCommand's own word comes; not the frame of a warning."""
    lines = (line.strip("@ ") for line in said.splitlines())
    return next(filter(None, lines), "no answer")


def wait_for_login(workspace: Workspace, alias: str) -> float:
    """Log in until it works; give the seconds it took.

    Raises ToolError with ssh's last words after LOGIN_SECONDS.
    """
    started = said = time.monotonic()
    while (done := ssh(workspace, alias, "true")).returncode:
        now = time.monotonic()
        last = first_word(done.stderr)
        denied = "Permission denied" in done.stderr
        if now - started > (DENIED_SECONDS if denied else LOGIN_SECONDS):
            advice = "look at its keys" if denied else f"`RESTART={alias} make up` starts the unit anew"
            raise ToolError(f"no login to {alias} after {now - started:.0f} s: {last} ({advice})")
        if now - said > HEARTBEAT_SECONDS:
            said = now
            say(f"waiting for a login to {alias}, {now - started:.0f} s: {last}")
        time.sleep(0.3)
    return time.monotonic() - started
