"""What the toolchain can provide, as data: one row per module, one per program."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
GO_MODULES = TOOLS / "go"


@cache
def versions() -> dict[str, dict[str, str]]:
    """Read tools/versions.toml: section, name, version without a leading v."""
    return tomllib.loads((TOOLS / "versions.toml").read_text())


@dataclass(frozen=True)
class Module:
    """A folder of tools/go and the upstream module it is there for."""

    folder: str
    path: str
    """Import path of the upstream module."""
    pinned: str
    """Its version as go.mod has it."""
    gigabytes: int
    """Disk that its first build takes in Go's two caches, rounded up."""


@dataclass(frozen=True)
class Companion:
    """A file that must lie beside a program, taken from one of its modules."""

    module: str
    file: str
    mode: int


@dataclass(frozen=True)
class Binary:
    """A program: which package of which module, built how."""

    name: str
    module: str
    package: str
    tags: str = ""
    version_symbols: tuple[str, ...] = ()
    """What the linker sets: `symbol=value`."""
    static: bool = False
    """Built without libc: it goes into images."""
    debian: tuple[str, ...] = ()
    """Debian packages that its build needs."""
    companions: tuple[Companion, ...] = ()
    beside: tuple[str, ...] = ()
    """Other programs of this table that it looks for in its own folder."""


_PULUMI, _CLUSTER, _SSH = versions()["pulumi"], versions()["cluster"], versions()["ssh"]

PROVIDER_COMMITS = {"4.25.0": "v4.0.0-20260115033456-f47bc2d6f199"}
"""Release of the provider → the module version of its commit: the releases' own tags are not of the module's form."""

MODULES = {
    module.folder: module
    for module in (
        Module("pulumi", "github.com/pulumi/pulumi/pkg/v3", f"v{_PULUMI['engine']}", 3),
        Module(
            "kubernetes-provider",
            "github.com/pulumi/pulumi-kubernetes/provider/v4",
            PROVIDER_COMMITS[_PULUMI["kubernetes"]],
            4,
        ),
        Module("kubernetes", "k8s.io/kubernetes", f"v{_CLUSTER['kubernetes']}", 4),
        Module("etcd", "go.etcd.io/etcd/server/v3", f"v{_CLUSTER['etcd']}", 1),
        Module("containerd", "github.com/containerd/containerd/v2", f"v{_CLUSTER['containerd']}", 1),
        Module("runc", "github.com/opencontainers/runc", f"v{_CLUSTER['runc']}", 1),
        Module("kube-router", "github.com/cloudnativelabs/kube-router/v2", f"v{_CLUSTER['kube-router']}", 1),
        Module("coredns", "github.com/coredns/coredns", f"v{_CLUSTER['coredns']}", 1),
        Module(
            "local-path-provisioner",
            "github.com/rancher/local-path-provisioner",
            f"v{_CLUSTER['local-path-provisioner']}",
            1,
        ),
        Module("frp", "github.com/fatedier/frp", f"v{_SSH['frp']}", 1),
    )
}

_ENGINE_VERSION = (f"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{_PULUMI['engine']}",)


def _kubernetes_version() -> tuple[str, ...]:
    """Without these a cluster calls itself v0.0.0-master+$Format:%H$, which kubectl cannot parse."""
    major, minor, _ = _CLUSTER["kubernetes"].split(".")
    values = {
        "gitVersion": f"v{_CLUSTER['kubernetes']}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple(f"{package}.{name}={value}" for package in packages for name, value in values.items())


BINARIES = {  # in the order of building: what lies beside another comes before it
    binary.name: binary
    for binary in (
        Binary(
            "pulumi-language-python",
            "pulumi",
            "./language-python",
            version_symbols=_ENGINE_VERSION,
            companions=(Companion("github.com/pulumi/pulumi/sdk/v3", "python/cmd/pulumi-language-python-exec", 0o755),),
        ),
        Binary(
            "pulumi",
            "pulumi",
            "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            tags="osusergo,grpcnotrace",
            version_symbols=_ENGINE_VERSION,
            beside=("pulumi-language-python",),
        ),
        Binary(
            "pulumi-resource-kubernetes",
            "kubernetes-provider",
            ".",
            version_symbols=(
                f"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version={_PULUMI['kubernetes']}",
            ),
            companions=(
                Companion(
                    "github.com/pulumi/pulumi-kubernetes/provider/v4",
                    "cmd/pulumi-resource-kubernetes/schema.json",
                    0o644,
                ),
            ),
        ),
        Binary("kube", "kubernetes", "./kube", version_symbols=_kubernetes_version()),
        Binary("kubectl", "kubernetes", "./kubectl", version_symbols=_kubernetes_version()),
        Binary("deviceplugin", "kubernetes", "./deviceplugin"),
        Binary("etcd", "etcd", "."),
        Binary("containerd", "containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
        Binary(
            "containerd-shim-runc-v2", "containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
        ),
        Binary("ctr", "containerd", "github.com/containerd/containerd/v2/cmd/ctr"),
        Binary(
            "runc",
            "runc",
            "github.com/opencontainers/runc",
            tags="seccomp",
            debian=("gcc", "libc6-dev", "libseccomp-dev", "pkg-config"),
        ),
        Binary("kube-router", "kube-router", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"),
        Binary("coredns", "coredns", ".", static=True),
        Binary(
            "local-path-provisioner",
            "local-path-provisioner",
            "github.com/rancher/local-path-provisioner",
            version_symbols=(f"main.VERSION=v{_CLUSTER['local-path-provisioner']}",),
            static=True,
        ),
        Binary("frps", "frp", "github.com/fatedier/frp/cmd/frps", tags="noweb", static=True),
        Binary("frpc", "frp", "github.com/fatedier/frp/cmd/frpc", tags="noweb", static=True),
    )
}

PULUMI_PIECES = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")
"""What a user may already have, or get from the official releases, in exactly the fitting version.

The engine first: its release brings the language host."""
