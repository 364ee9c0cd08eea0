"""State the security law once: components wear it, checks demand it, the documentation prints it."""

from collections.abc import Mapping
from typing import Any, Final

from policy.quantity import binary

PSA_VERSION: Final = "v1.36"
"""Of Pod Security: pinned, so that an upgraded cluster never turns away the next pod of a unit that ran before; an
older one reads a version that it does not know as its own latest."""

PSA_LEVEL: Final = "restricted"
"""The strictest level; our checks demand at least what it does."""

NAMESPACE_LABELS: Final[Mapping[str, str]] = {
    f"pod-security.kubernetes.io/{mode}{suffix}": value
    for mode in ("enforce", "warn", "audit")
    for suffix, value in (("", PSA_LEVEL), ("-version", PSA_VERSION))
}
"""Worn by every namespace of ours, so that the cluster refuses what neither program nor pack has seen."""

TENANT_LABEL: Final = "gpu-runtime/tenant"
"""On a Namespace: it belongs to the tenant named by the value."""

PLATFORM_LABEL: Final[tuple[str, str]] = ("app.kubernetes.io/component", "platform")
"""On a Namespace without `TENANT_LABEL`: it belongs to the platform, the only place where exemptions hold."""

TOKEN_EXEMPTIONS: Final[Mapping[str, str]] = {
    "gate": "admits a unit only while its namespace and Service exist, so it watches both",
    "proxy": "its container routes writes Envoy's routes from our labelled Services, so it watches them",
    "status": "reports the state of units and storages, so it reads them",
}
"""Pods of the platform that may carry a service-account token: value of `app.kubernetes.io/component` -> reason."""

TOKEN_CONTAINERS: Final[Mapping[str, str]] = {"proxy": "routes"}
"""Where a pod of `TOKEN_EXEMPTIONS` also faces clients: its one container that may mount the token."""

SECRET_READERS: Final[Mapping[str, str]] = {"gpu-runtime-access": "proxy"}
"""Namespace of the platform that holds nothing but passwords to compare with -> the one account that may read them."""

DEFAULT_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
"""What runtimes give by default, less NET_RAW (Pod Security baseline): to add any other is worse than to keep these."""

ALLOWED_CAPABILITIES: Final = frozenset({"NET_BIND_SERVICE"})
"""What may be added after `ALL` is dropped (Pod Security restricted)."""

VOLUME_TYPES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    },
)
"""Volume sources that reach neither the node's disk nor a network export behind its back (Pod Security restricted)."""

SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    },
)
"""Sysctls that change the pod alone (Pod Security at `PSA_VERSION`)."""

SHM_PATH: Final = "/dev/shm"  # noqa: S108 - a mount path inside the container, no file of this program
SHM_NAME: Final = "shm"

GPU_DOMAINS: Final = frozenset(
    {
        "nvidia.com",  # also HAMi's gpumem, gpumem-percentage, gpucores and priority
        "amd.com",
        "gpu.intel.com",
        "habana.ai",
        "aws.amazon.com",  # neuron, neuroncore, neurondevice
        "google.com",  # tpu
        "cambricon.com",
        "enflame.com",
        "huawei.com",
        "hygon.com",
        "iluvatar.ai",
        "kunlunxin.com",
        "metax-tech.com",
        "mthreads.com",
        "volcano.sh",  # vgpu-number, vgpu-memory, vgpu-cores
        "aliyun.com",  # gpu-mem
        "tencent.com",  # vcuda-core, vcuda-memory
    },
)
"""Domains whose extended resources are accelerators; HAMi hands out shares under its vendors' domains."""

GPU_RESOURCES: Final = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/gpucores",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "google.com/tpu",
)
"""The accelerators one meets most: what a tenant's quota sets to 0 unless it is granted."""

BLOCKED_V4: Final[Mapping[str, str]] = {
    "0.0.0.0/8": "this network (RFC 791): on Linux 0.0.0.0 reaches the host itself",
    "10.0.0.0/8": "private (RFC 1918)",
    "100.64.0.0/10": "carrier-grade NAT (RFC 6598): pods of EKS and GKE, Alibaba metadata 100.100.100.200",
    "127.0.0.0/8": "loopback (RFC 1122)",
    "168.63.129.16/32": "Azure WireServer: public space, hands out the node's secrets",
    "169.254.0.0/16": "link-local (RFC 3927): cloud metadata .169.254, ECS .170.2, EKS Pod Identity .170.23",
    "172.16.0.0/12": "private (RFC 1918)",
    "192.0.0.0/24": "IETF protocol assignments (RFC 6890): Oracle metadata 192.0.0.192",
    "192.0.2.0/24": "documentation (RFC 5737)",
    "192.88.99.0/24": "6to4 relay anycast (RFC 7526)",
    "192.168.0.0/16": "private (RFC 1918)",
    "198.18.0.0/15": "benchmarking (RFC 2544)",
    "198.51.100.0/24": "documentation (RFC 5737)",
    "203.0.113.0/24": "documentation (RFC 5737)",
    "224.0.0.0/4": "multicast (RFC 5771)",
    "240.0.0.0/4": "reserved (RFC 1112), with the broadcast address 255.255.255.255",
}
"""IPv4 ranges that are not the internet: no tenant pod may reach them -> reason."""

BLOCKED_V6: Final[Mapping[str, str]] = {
    "::/96": "IPv4-compatible (RFC 4291, deprecated): carries IPv4 inside; with the host itself, :: and ::1",
    "64:ff9b::/96": "NAT64 (RFC 6052): would re-open every blocked IPv4 range",
    "64:ff9b:1::/48": "local NAT64 (RFC 8215): would re-open every blocked IPv4 range",
    "100::/64": "discard-only (RFC 6666)",
    "2001::/32": "Teredo (RFC 4380): carries IPv4 inside",
    "2001:db8::/32": "documentation (RFC 3849)",
    "2002::/16": "6to4 (RFC 3056): carries IPv4 inside",
    "3fff::/20": "documentation (RFC 9637)",
    "5f00::/16": "segment-routing identifiers (RFC 9602)",
    "fc00::/7": "unique local (RFC 4193): AWS metadata fd00:ec2::254, GCP fd20:ce::254",
    "fe80::/10": "link-local (RFC 4291)",
    "fec0::/10": "site-local (RFC 3879)",
    "ff00::/8": "multicast (RFC 4291)",
}
"""IPv6 ranges that are not the internet -> reason. Without ::ffff:0:0/96: no API server takes it as part of ::/0."""

BLOCKED: Final[Mapping[str, str]] = {**BLOCKED_V4, **BLOCKED_V6}

PRIVATE: Final = frozenset(
    {"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "fc00::/7"},
)
"""Blocked ranges where a site may have hosts of its own: a stack file may open single parts of them, with a reason."""

METADATA: Final[Mapping[str, str]] = {
    "100.100.100.200/32": "Alibaba Cloud",
    "168.63.129.16/32": "Azure WireServer",
    "169.254.0.23/32": "Tencent Cloud",
    "169.254.42.42/32": "Scaleway",
    "169.254.169.254/32": "AWS, Azure, GCP, OpenStack and most others",
    "169.254.169.255/32": "Linode",
    "169.254.170.2/32": "AWS ECS task credentials",
    "169.254.170.23/32": "AWS EKS Pod Identity",
    "192.0.0.192/32": "Oracle Cloud",
    "fd00:42::42/128": "Scaleway",
    "fd00:a9fe:a9fe::1/128": "Linode",
    "fd00:ec2::23/128": "AWS EKS Pod Identity",
    "fd00:ec2::254/128": "AWS",
    "fd20:ce::254/128": "GCP",
}
"""Addresses that hand out a node's credentials -> whose; all are blocked, and no reason opens one."""

SEALED: Final[Mapping[str, str]] = {
    **{cidr: f"metadata service, {whose}" for cidr, whose in METADATA.items()},
    **{c: why for c, why in BLOCKED.items() if c not in PRIVATE and c not in METADATA},
}
"""Ranges that no reason opens: metadata services, the node itself, IPv4 inside IPv6, what is no host's -> why."""

BLOCKED_ANNOTATION: Final = "gpu-runtime/blocked-cidrs"
"""On a Namespace: comma-separated CIDRs of the site that its pods must not reach, beside the built-in ranges."""

ALLOWED_ANNOTATION: Final = "gpu-runtime/allowed-cidrs"
"""On a NetworkPolicy: a JSON object, each ipBlock peer inside a blocked range -> the reason why it is opened."""

OPEN_PORTS: Final[Mapping[int, str]] = {1337: "SSH by name", 8080: "the way to HTTPS", 8443: "HTTPS, by password"}
"""Ports of the platform's pods that addresses may reach, and not only pods that a policy names -> why."""

POD_DEFAULTS: Final[Mapping[str, Any]] = {"automountServiceAccountToken": False, "enableServiceLinks": False}
"""Spread into every pod spec: no identity towards the API, no list of the namespace's Services in the environment."""


def pod_security(uid: int, gid: int) -> dict[str, Any]:
    """Return the securityContext of a pod that runs as *uid*:*gid*, its volumes owned by *gid*.

    As user 0 it obeys the law only in a user namespace of its own (`hostUsers: false`).
    """
    return {
        "runAsNonRoot": uid != 0,
        "runAsUser": uid,
        "runAsGroup": gid,
        "fsGroup": gid,
        "fsGroupChangePolicy": "OnRootMismatch",  # a recursive chown of a full volume takes minutes at every start
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(*, read_only_root: bool = True) -> dict[str, Any]:
    """Return the securityContext of a container; only a tenant's own image may ask for a writable root."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": read_only_root,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def shm_volume(memory: int) -> dict[str, Any]:
    """Return the volume for `SHM_PATH`: half of the container's memory limit of *memory* bytes, in whole KiB.

    Its pages count against that limit, so half leaves the program room; whole KiB stay as written through the API.
    """
    return {"name": SHM_NAME, "emptyDir": {"medium": "Memory", "sizeLimit": binary(max(memory // 2048, 1))}}


def shm_mount() -> dict[str, Any]:
    """Return the mount of `shm_volume` in the container that needs it."""
    return {"name": SHM_NAME, "mountPath": SHM_PATH}


def is_gpu_resource(name: str) -> bool:
    """Say whether the extended resource *name* is an accelerator, also with a quota's `requests.` before it."""
    domain, slash, _ = name.removeprefix("requests.").removeprefix("limits.").partition("/")
    return bool(slash) and domain in GPU_DOMAINS
