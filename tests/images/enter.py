"""Become the first process of a container, as a kubelet under `restricted` would start it: enter.py SPEC.

Runs as process 1 of fresh namespaces (see containers.py). It has no more rights afterwards than such a container: a
user's uid, no capability in any set, no_new_privs.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LAST_CAPABILITY = 40
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
TERMINALS = "newinstance,ptmxmode=0666,mode=0620,gid=5"
"""As runc mounts them."""


def mount(*arguments: str | Path) -> None:
    """Mount as the command of that name does."""
    subprocess.run(["mount", *arguments], check=True)


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Mount *source*, file or folder, on *target*, which is made where the image lacks it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    mount("--bind", source, target)
    if read_only:
        mount("-o", "remount,bind,ro", target)


def kernel_folders(root: Path) -> None:
    """Give the container /proc, /dev, its own terminals and a /tmp."""
    for folder in ("proc", "dev", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "tmpfs", "-o", "mode=0755", "dev", root / "dev")
    for device in DEVICES:
        bind(Path("/dev", device), root / "dev" / device)
    (root / "dev/pts").mkdir()
    mount("-t", "devpts", "-o", TERMINALS, "devpts", root / "dev/pts")
    (root / "dev/ptmx").symlink_to("pts/ptmx")


def drop_rights(uid: int, group: int) -> None:
    """Keep nothing that a container under pod-security `restricted` has not."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([group])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main() -> None:
    """Build the container's view and become its program."""
    spec = json.loads(sys.argv[1])
    root = Path(spec["root"])
    mount("--make-rprivate", "/")
    mount("--bind", root, root)
    kernel_folders(root)
    for target, (source, mode) in spec["mounts"].items():
        bind(Path(source), root / target.lstrip("/"), read_only=mode == "ro")
    if spec["read_only"]:
        mount("-o", "remount,bind,ro", root)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chroot(root)
    os.chdir("/")
    drop_rights(spec["uid"], spec["group"])
    os.execve(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606  - to become it is the point


main()
