"""What a user is handed: one text that OpenSSH reads."""

import subprocess
from pathlib import Path

import pytest

from components.ssh_client import Access
from tools.shell import ToolError
from tools.stack.client import handouts

TRAINER = Access("trainer.lab-a", "alice", "trainer.lab-a.ssh.example.com", "ssh.example.com", 1337, "ssh-ed25519 AAAA")
OUTPUTS = {
    "units": {
        "trainer.lab-a": {
            "user": "alice",
            "host": TRAINER.host,
            "connect": {"host": "ssh.example.com", "port": 1337},
            "hostKey": TRAINER.host_key,
        },
        "silent.lab-a": {"url": None},
    }
}


def test_openssh_reads_what_is_handed_out(tmp_path: Path) -> None:
    """The whole text is an ssh_config as it is: strict checking, keepalives, and the host that is never resolved."""
    file = tmp_path / "config"
    file.write_text(TRAINER.handout())
    argv = ["ssh", "-F", str(file), "-G", "trainer.lab-a"]
    read = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    said = dict(line.split(" ", 1) for line in read.splitlines() if " " in line)

    assert said["hostname"] == TRAINER.host
    assert said["user"] == "alice"
    assert said["stricthostkeychecking"] in {"true", "yes"}
    assert said["userknownhostsfile"].endswith("/.ssh/known_hosts.gpu-runtime")
    assert said["proxycommand"] == "nc -X connect -x ssh.example.com:1337 %h %p"
    assert int(said["serveraliveinterval"]) > 0
    assert int(said["connecttimeout"]) > 0


def test_the_host_key_comes_with_it() -> None:
    """The line for known_hosts is in the text, so that a user needs nothing else to be sure who answers."""
    assert f"# {TRAINER.known_hosts}\n" in TRAINER.handout()
    assert "ProxyCommand python3 ~/.ssh/ssh_connect.py ssh.example.com:1337 %h %p" in TRAINER.handout()


def test_a_user_is_handed_one_unit_and_no_other() -> None:
    """UNIT= names one; a unit without SSH, or none of the stack, is refused with those that there are."""
    assert handouts(OUTPUTS, "trainer.lab-a") == handouts(OUTPUTS) == TRAINER.handout()
    for name in ("silent.lab-a", "trainer"):
        with pytest.raises(ToolError, match=r"there are trainer\.lab-a"):
            handouts(OUTPUTS, name)
