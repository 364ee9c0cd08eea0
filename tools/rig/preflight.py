"""What a host must have before a rig is begun: everything that is missing is said at once."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.rig.config import CNI_PLUGINS
from tools.rig.errors import RigError
from tools.rig.images import BUSYBOX
from tools.rig.oci import ARCHITECTURES
from tools.toolchain import ensure_debian

PACKAGES = {
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "gcc": "gcc",
    "ip": "iproute2",
    "ipset": "ipset",
    "ip6tables": "iptables",
    "iptables": "iptables",
    "iptables-restore": "iptables",
    "mount": "mount",
    "nft": "nftables",
    "nsenter": "util-linux",
    "setsid": "util-linux",
    "umount": "mount",
    "unshare": "util-linux",
}
"""Programs that a rig runs, and the Debian package of each."""

FILES = {
    **{f"{CNI_PLUGINS}/{plugin}": "containernetworking-plugins" for plugin in ("bridge", "host-local", "loopback")},
    str(BUSYBOX): "busybox-static",
    "/usr/include/stdlib.h": "libc6-dev",
}

DISK_BYTES = 3 * 1024**3
"""Images, etcd and logs of a demo take one; the rest keeps the kubelet from evicting."""

MEMORY_BYTES = 2 * 1024**3
"""A rig alone takes 1 GiB; the rest is for one unit."""

_RULE = "iptables -w 5 -A OUTPUT -j ACCEPT"
_NAT = "{ type nat hook output priority 0; }"
PROBES = {
    "veth pairs (CONFIG_VETH)": "ip link add one type veth peer name two",
    "bridges (CONFIG_BRIDGE)": "ip link add three type bridge",
    "bridge netfilter (br_netfilter)": "test -e /proc/sys/net/bridge/bridge-nf-call-iptables",
    "nftables (CONFIG_NF_TABLES)": f"nft add table inet one && nft 'add chain inet one two {_NAT}'",
    "iptables (CONFIG_NFT_COMPAT)": f"{_RULE} -m comment --comment x -m conntrack --ctstate NEW",
    "IP sets (CONFIG_NETFILTER_XT_SET)": f"ipset create one hash:ip && {_RULE} -m set --match-set one dst",
}
"""Shell commands for a fresh network namespace; each fails where the kernel lacks the feature."""

_RULE6 = "ip6tables -w 5 -A OUTPUT -j ACCEPT"
IPV6 = f"""\
set -e
test -e /proc/sys/net/bridge/bridge-nf-call-ip6tables
mount -t tmpfs tmpfs /run
echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6
ip link set lo up
ip -6 address add fd00::1/128 dev lo nodad
{_RULE6} -m conntrack --ctstate NEW
{_RULE6} -p ipv6-icmp -m icmp6 --icmpv6-type 135
ipset create one hash:ip family inet6
{_RULE6} -m set --match-set one dst
nft 'add table ip6 one; add chain ip6 one two {_NAT}'
"""
"""What a rig needs to have IPv6 beside IPv4; without any of it, it has IPv4 alone."""


def check(state: Path) -> None:
    """Raise RigError with everything that keeps a rig from running here; install missing Debian packages first."""
    require_root_on_linux()
    packages = sorted(set(missing_packages()))
    if packages:
        ensure_debian(*packages)
    problems = [*missing_kernel_features(), *short_resources(state)]
    if problems:
        raise RigError("this host cannot run a rig: " + "; ".join(problems))


def require_root_on_linux() -> None:
    """Raise RigError where no rig can ever run, with all that is missing."""
    problems = []
    if sys.platform != "linux":
        problems.append(f"it needs Linux, this is {sys.platform}")
    elif os.geteuid() != 0:
        problems.append("it needs root, for namespaces, mounts and cgroups (try sudo)")
        if packages := sorted(set(missing_packages())):
            problems.append(f"Debian packages are missing too: {' '.join(packages)}")
    if platform.machine() not in ARCHITECTURES:
        problems.append(f"it needs {' or '.join(ARCHITECTURES)}, this is {platform.machine()}")
    if problems:
        raise RigError("no rig can run here: " + "; ".join(problems))


def missing_packages() -> Iterator[str]:
    """Yield the Debian packages of programs and files that are not there."""
    yield from (package for program, package in PACKAGES.items() if shutil.which(program, path=_path()) is None)
    yield from (package for file, package in FILES.items() if not Path(file).exists())


def missing_kernel_features() -> list[str]:
    """Return what the kernel refuses in a network namespace of its own, and file systems it lacks."""
    if not Path("/proc/sys/net/bridge").exists():
        _load_module("br_netfilter")
    if not _knows_overlay():
        _load_module("overlay")
    tests = [f"({command}) >/dev/null 2>&1 || echo '{feature}'" for feature, command in PROBES.items()]
    done = _in_namespaces("\n".join(["mount -t tmpfs tmpfs /run || exit 1", *tests, ":"]))
    if done.returncode:
        return [f"namespaces and mounts are refused: {done.stderr.strip()}"]
    overlay = [] if _knows_overlay() else ["overlayfs (CONFIG_OVERLAY_FS)"]
    return [f"the kernel lacks {feature}" for feature in [*done.stdout.splitlines(), *overlay]]


def has_ipv6() -> bool:
    """Tell whether the kernel has all that a rig needs to have IPv6 beside IPv4."""
    return _in_namespaces(IPV6).returncode == 0


def short_resources(state: Path) -> Iterator[str]:
    """Yield what there is too little of for a rig whose folder will be *state*."""
    existing = next(folder for folder in (state, *state.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < DISK_BYTES:
        yield f"{existing} has {_gib(free)} of free disk, a rig needs {_gib(DISK_BYTES)} (GPU_RUNTIME_RIGS moves rigs)"
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    if available < MEMORY_BYTES:
        yield f"{_gib(available)} of memory are available, a rig needs {_gib(MEMORY_BYTES)}"


def can_raise_oom() -> bool:
    """Tell whether this process has CAP_SYS_RESOURCE (bit 24)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 24 & 1)


def _in_namespaces(script: str) -> subprocess.CompletedProcess[str]:
    spaces = ["unshare", "--net", "--mount", "--cgroup", "--pid", "--fork", "--mount-proc"]
    return subprocess.run([*spaces, "sh", "-c", script], check=False, capture_output=True, text=True, env=_env())


def _gib(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB"


def _load_module(name: str) -> None:
    if program := shutil.which("modprobe", path=_path()):
        subprocess.run([program, name], check=False, capture_output=True)


def _knows_overlay() -> bool:
    return "\toverlay\n" in Path("/proc/filesystems").read_text()


def _env() -> dict[str, str]:
    return {"PATH": _path()}


def _path() -> str:
    """Return where to look for programs: sudo and cron often leave the sbin folders out."""
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
