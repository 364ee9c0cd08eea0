"""Programs and headers that come from Debian."""

import os
import shutil
import subprocess
from pathlib import Path

from tools.shell import ToolError, cache_dir, locked, run_logged, say, tail

ELSEWHERE = {
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "dpkg-dev": "dpkg-architecture",
    "iproute2": "ip",
    "libc6-dev": "/usr/include/stdlib.h",
    "libseccomp-dev": "/usr/include/seccomp.h",
    "netcat-openbsd": "nc",
    "nftables": "nft",
    "openssh-client": "ssh",
    "busybox-static": "busybox",
}
"""On a machine without dpkg: what shows that a package's content is there. Not listed: a program of the same name."""


def ensure_debian(*packages: str) -> None:
    """Install what is missing of *packages*, saying so. ToolError names what is missing where that cannot be done."""
    if not missing(*packages):
        return
    with locked(cache_dir() / "debian.lock", "toolchain"):
        absent = missing(*packages)
        if absent:
            _install(absent)


def missing(*packages: str) -> list[str]:
    """Return those of *packages* that are not installed, in order."""
    present = _installed(packages) if shutil.which("dpkg-query") else [name for name in packages if _is_there(name)]
    return [package for package in packages if package not in present]


def _installed(packages: tuple[str, ...]) -> list[str]:
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *packages]
    lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    return [name for name, status in (line.split() for line in lines) if status == "installed"]


def _is_there(package: str) -> bool:
    sign = ELSEWHERE.get(package, package)
    return Path(sign).exists() if sign.startswith("/") else shutil.which(sign) is not None


def _install(packages: list[str]) -> None:
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise ToolError(f"these are missing, and this machine has no apt to install them: {names}.")
    if os.geteuid() != 0:
        raise ToolError(f"these Debian packages are missing, and only root may install them: {names}.")
    say(f"toolchain: installing Debian packages: {names}")
    _apt("update", "package lists")
    _apt("install --yes", names, *packages)


def _apt(action: str, label: str, *packages: str) -> None:
    log = cache_dir() / "log" / "apt.log"
    argv = ["apt-get", "--quiet", *action.split(), *packages]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if run_logged(argv, label=f"toolchain: apt-get {action}", log=log, env=env) != 0:
        raise ToolError(f"apt-get {action} failed for {label}; the end of {log}:\n" + "\n".join(tail(log)))
