"""The programs of a rig: what runs, with which arguments, after what. Plain data for supervisor.py."""

from pathlib import Path
from typing import Any

from tools.rig import cgroups, node, router
from tools.rig.config import API_PORT, CONTAINERD_SOCKET, HELPER_IMAGE, INSIDE, KUBELET_SOCKET, STORAGE_NAMESPACE
from tools.rig.network import Network
from tools.rig.pki import node_name

BIN = "/run/rig/bin"
"""Where the rig sees its programs, bound one by one: the cache may lie below a folder that the rig replaces."""

SYSTEM_ARCHIVE = "/run/rig/images.tar"
PKI = f"{INSIDE}/pki"

KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
"""Names of the one binary `kube`, which decides by its name what it is."""

PROGRAMS = (
    "etcd", "kube", "kubectl", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "kube-router",
    "coredns", "local-path-provisioner", "deviceplugin",
)  # fmt: skip
"""Binaries that the toolchain builds for a rig."""

GPUS = 8
"""Simulated ones: as many as a common GPU server has."""

KERNEL_WIDE = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
)  # fmt: skip
"""Sysctls of the whole machine that the kubelet writes: files of the rig lie over them; the host keeps its values."""

CLUSTER_QPS = ("--kube-api-qps=200", "--kube-api-burst=400")
"""The defaults are for clusters that share an API server; here they only make one wait."""

IMPORT = ("images", "import", "--local")
"""Arguments of ctr; an archive follows."""

Component = dict[str, Any]


def plan(
    folder: Path,
    rig: str,
    network: Network,
    binaries: dict[str, Path],
    archive: Path,
    hierarchies: list[cgroups.Hierarchy],
) -> dict[str, Any]:
    """Return what the rig's PID 1 does: commands that set its namespaces up, then the components."""
    setup = [
        *mount_commands(folder, binaries, archive),
        *cgroups.mount_commands(hierarchies),
        *node.setup_commands(network),
        *router.setup_commands(INSIDE, BIN, ipv6=network.ipv6),
    ]
    environment = {"PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    return {"setup": setup, "environment": environment, "components": components(rig, network)}


def mount_commands(folder: Path, binaries: dict[str, Path], archive: Path) -> list[list[str]]:
    """Return the mounts: a fresh /run, programs, the rig's own /var, shielded sysctls."""
    files = {f"{BIN}/{name}": path for name, path in binaries.items() if name != "runc"}
    files |= {f"{BIN}/{name}": binaries["kube"] for name in KUBERNETES}
    files |= {SYSTEM_ARCHIVE: archive}
    binds = [line for target, source in files.items() for line in (["touch", target], _bind(str(source), target))]
    # runc runs itself from a read-only view of its folder, which does not show mounts on it.
    copy = ["cp", str(binaries["runc"]), f"{BIN}/runc"]
    sysctls = [key for key in KERNEL_WIDE if Path(f"/proc/sys/{key}").exists()]
    return [
        ["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"],
        ["mkdir", "-p", BIN, "/run/lock"],
        *binds,
        copy,
        _bind(str(folder / "var"), "/var"),
        *(_bind(f"{INSIDE}/sysctl/{key}", f"/proc/sys/{key}") for key in sysctls),
        # A kernel mounts /proc in a pod's user namespace only where it can see one that nothing is mounted over.
        ["mkdir", "/run/bare-proc"],
        ["mount", "-t", "proc", "proc", "/run/bare-proc"],
        ["mount", "--make-rshared", "/"],
    ]


def components(rig: str, network: Network) -> list[Component]:
    """Return every program with what it waits for: a path, or the name of a step that has ended well."""
    admin, apply = _kubeconfig("admin"), ["apply", "--server-side", "--force-conflicts"]
    return [
        _program("etcd", *_etcd()),
        _program("kube-apiserver", *_api_server(network)),
        _program("containerd", f"--config={INSIDE}/containerd.toml"),
        _step("images", "ctr", "--namespace=k8s.io", *IMPORT, SYSTEM_ARCHIVE, after=[CONTAINERD_SOCKET]),
        _step("api", "kubectl", admin, "get", "--raw=/readyz"),
        _step("addons", "kubectl", admin, *apply, f"--filename={INSIDE}/addons.yaml", after=["api"]),
        _program("kube-controller-manager", *_controller_manager(rig, network), after=["api"]),
        _program("kube-scheduler", *_scheduler(), after=["api"]),
        _program("kubelet", *_kubelet(rig, network), after=["images", "api"]),
        _step("node", "kubectl", admin, "get", "node", node_name(rig), after=["api"]),
        _program("kube-proxy", *_proxy(rig, network), after=["node"]),
        # It ends at once, and policies are not enforced, when its node does not exist yet.
        _program("kube-router", *_router(rig, network), after=["node", "addons"]),
        _program("local-path-provisioner", *_storage(), after=["addons"]),
        _program("deviceplugin", f"--count={GPUS}", after=[KUBELET_SOCKET]),
    ]


def _etcd() -> list[str]:
    tls = [
        f"--cert-file={PKI}/etcd.crt",
        f"--key-file={PKI}/etcd.key",
        f"--trusted-ca-file={PKI}/etcd-ca.crt",
        "--client-cert-auth",
    ]
    peer = [flag.replace("--", "--peer-", 1) for flag in tls]
    clients, peers = "https://127.0.0.1:2379", "https://127.0.0.1:2380"
    return [
        "--data-dir=/var/lib/etcd",
        "--unsafe-no-fsync",  # ten times faster on slow disks; only a crash of the machine itself can lose data
        "--enable-grpc-gateway=false",
        "--log-level=warn",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        *tls,
        *peer,
    ]


def _api_server(network: Network) -> list[str]:
    return [
        f"--advertise-address={network.node_ip}",
        f"--secure-port={API_PORT}",
        "--etcd-servers=https://127.0.0.1:2379",
        f"--etcd-cafile={PKI}/etcd-ca.crt",
        f"--etcd-certfile={PKI}/etcd-client.crt",
        f"--etcd-keyfile={PKI}/etcd-client.key",
        f"--service-cluster-ip-range={_both(network.services, network.services6)}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=false",
        "--profiling=false",
        "--allow-privileged=true",
        f"--client-ca-file={PKI}/ca.crt",
        f"--tls-cert-file={PKI}/kube-apiserver.crt",
        f"--tls-private-key-file={PKI}/kube-apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={PKI}/service-account.pub",
        f"--service-account-signing-key-file={PKI}/service-account.key",
        f"--kubelet-certificate-authority={PKI}/ca.crt",
        f"--kubelet-client-certificate={PKI}/kubelet-client.crt",
        f"--kubelet-client-key={PKI}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",  # node names are in no DNS
    ]


def _controller_manager(rig: str, network: Network) -> list[str]:
    return [
        _kubeconfig("kube-controller-manager"),
        f"--cluster-name={rig}",
        "--leader-elect=false",  # nobody to elect against, and a restart need not wait for a lease to end
        "--secure-port=0",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={PKI}/service-account.key",
        f"--root-ca-file={PKI}/ca.crt",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={_both(network.pods, network.pods6)}",
        *(f"--node-cidr-mask-size-ipv{one.version}={one.prefixlen}" for one in (network.pods, network.pods6) if one),
        "--flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins",
        *CLUSTER_QPS,
    ]


def _scheduler() -> list[str]:
    return [_kubeconfig("kube-scheduler"), "--leader-elect=false", "--secure-port=0", *CLUSTER_QPS]


def _kubelet(rig: str, network: Network) -> list[str]:
    return [
        _kubeconfig("kubelet"),
        f"--config={INSIDE}/kubelet.json",
        f"--hostname-override={node_name(rig)}",
        f"--node-ip={_both(network.node_ip, network.node_ip6)}",
        f"--node-labels=gpu-runtime.simulated/gpu={GPUS}",
    ]


def _proxy(rig: str, network: Network) -> list[str]:
    return [
        _kubeconfig("kube-proxy"),
        f"--hostname-override={node_name(rig)}",
        "--proxy-mode=nftables",
        "--detect-local-mode=ClusterCIDR",
        f"--cluster-cidr={_both(network.pods, network.pods6)}",
        "--healthz-bind-address=127.0.0.1:10256",
        # Sysctls of connection tracking belong to the host: leave them.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]


def _router(rig: str, network: Network) -> list[str]:
    return [
        _kubeconfig("kube-router"),
        f"--hostname-override={node_name(rig)}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--enable-cni=false",
        "--health-port=0",
        f"--enable-ipv6={str(network.ipv6).lower()}",
        f"--service-cluster-ip-range={_both(network.services, network.services6)}",
    ]


def _storage() -> list[str]:
    return [
        "start",
        _kubeconfig("local-path-provisioner"),
        f"--config={INSIDE}/storage.json",
        f"--helper-pod-file={INSIDE}/helper-pod.json",
        f"--helper-image={HELPER_IMAGE}",
        f"--namespace={STORAGE_NAMESPACE}",
        "--service-account-name=helper",
    ]


def _program(name: str, *arguments: str, after: list[str] | None = None) -> Component:
    return {"name": name, "argv": [f"{BIN}/{name}", *arguments], "after": after or [], "step": False}


def _step(name: str, program: str, *arguments: str, after: list[str] | None = None) -> Component:
    return {"name": name, "argv": [f"{BIN}/{program}", *arguments], "after": after or [], "step": True}


def _kubeconfig(identity: str) -> str:
    return f"--kubeconfig={INSIDE}/{identity}.kubeconfig"


def _both(four: object, six: object | None) -> str:
    return f"{four}" if six is None else f"{four},{six}"


def _bind(source: str, target: str) -> list[str]:
    return ["mount", "--bind", source, target]
