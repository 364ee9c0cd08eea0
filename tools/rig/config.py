"""Configuration texts of the rig's programs, written under /var/lib/rig."""

import base64
import json
from pathlib import Path
from typing import Any

from tools.rig import guard, node, pki, router
from tools.rig.network import Network
from tools.rig.state import Folder

INSIDE = "/var/lib/rig"
"""Where the rig sees these files; certificates and keys are in pki/."""

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
KUBELET_SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
"""Where device plugins register."""

CNI_PLUGINS = "/usr/lib/cni"
"""Where Debian's containernetworking-plugins lie."""

PAUSE_IMAGE = "localhost/rig/pause:1"
HELPER_IMAGE = "localhost/rig/helper:1"
COREDNS_IMAGE = "localhost/rig/coredns:1"
API_PORT = 6443

STORAGE_NAMESPACE = "local-path-storage"
VOLUMES = "/var/lib/rig/volumes"


def write_all(folder: Folder, rig: str, network: Network, *, can_raise_oom: bool) -> None:
    """Write every configuration file of the rig, kubeconfigs included."""
    inside = folder.inside
    (inside / "cni").mkdir(exist_ok=True)
    (inside / "cni" / "10-rig.conflist").write_text(json.dumps(cni(network)))
    (inside / "containerd.toml").write_text(containerd(can_raise_oom=can_raise_oom))
    (inside / "kubelet.json").write_text(json.dumps(kubelet(network)))
    (inside / "firewall.nft").write_text(node.firewall(network))
    (inside / "guard.nft").write_text(guard.rules())
    for name, text in router.files().items():
        (inside / name).write_text(text)
        (inside / name).chmod(0o755)
    (inside / "storage.json").write_text(json.dumps(storage()))
    (inside / "helper-pod.json").write_text(json.dumps(helper_pod()))
    for name in pki.identities(rig):
        write_kubeconfig(inside / f"{name}.kubeconfig", inside / "pki", name, rig, network)
    write_kubeconfig(folder.kubeconfig, inside / "pki", "admin", rig, network)


def write_kubeconfig(path: Path, keys: Path, identity: str, rig: str, network: Network) -> None:
    """Write one identity's kubeconfig, readable by its owner alone."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(kubeconfig(keys, identity, rig, network), indent=1) + "\n")


def kubeconfig(keys: Path, identity: str, rig: str, network: Network) -> dict[str, Any]:
    """Return a kubeconfig that carries its certificates, so that it works from any folder and in the rig."""
    context = f"rig-{rig}"

    def data(file: str) -> str:
        return base64.b64encode((keys / file).read_bytes()).decode()

    server = {"server": f"https://{network.node_ip}:{API_PORT}", "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{identity}.crt"), "client-key-data": data(f"{identity}.key")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": server}],
        "users": [{"name": identity, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": identity}}],
    }


def kubelet(network: Network) -> dict[str, Any]:
    """Return the KubeletConfiguration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(network.node_ip),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{INSIDE}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{INSIDE}/pki/kubelet-server.crt",
        "tlsPrivateKeyFile": f"{INSIDE}/pki/kubelet-server.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",  # the default lies outside /var, on the host
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [str(network.dns_ip)],
        "clusterDomain": "cluster.local",
        "resolvConf": "",  # the host's resolvers are out of reach
        "nodeStatusReportFrequency": "1m",
        "nodeStatusUpdateFrequency": "2s",  # GPUs show that soon after the device plugin came
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "serializeImagePulls": False,
        "maxPods": 250,
        # Absolute and small: the default percentages evict pods from a large disk that is merely well used.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "200Mi", "imagefs.available": "200Mi"},
        "evictionPressureTransitionPeriod": "10s",
        "imageGCHighThresholdPercent": 100,  # never: a removed image could not be pulled again
    }


def cni(network: Network) -> dict[str, Any]:
    """Return the pod network: a bridge, without masquerading, since nothing leaves."""
    address_management = {
        "type": "host-local",
        "ranges": [[{"subnet": str(one)}] for one in (network.pods, network.pods6) if one],
        "routes": [{"dst": "0.0.0.0/0"}, *([{"dst": "::/0"}] if network.ipv6 else [])],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    return {"cniVersion": "1.0.0", "name": "rig", "plugins": [{**bridge, "ipam": address_management}]}


def containerd(*, can_raise_oom: bool) -> str:
    """Return containerd's configuration; runc fails where it must lower an OOM score without CAP_SYS_RESOURCE."""
    restrict = "false" if can_raise_oom else "true"
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {restrict}
  disable_apparmor = true  # a profile would stay loaded in the host's kernel
  enable_unprivileged_ports = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{CNI_PLUGINS}"]
  conf_dir = "{INSIDE}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""


def storage() -> dict[str, Any]:
    """Return local-path-provisioner's configuration; the commands are programs of the helper image."""
    paths = [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [VOLUMES]}]
    return {"nodePathMap": paths, "setupCommand": "/bin/volume-setup", "teardownCommand": "/bin/volume-teardown"}


def helper_pod() -> dict[str, Any]:
    """Return the pod that makes or removes a volume's folder."""
    container = {"name": "helper", "image": HELPER_IMAGE, "imagePullPolicy": "Never"}
    spec = {"automountServiceAccountToken": False, "enableServiceLinks": False, "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper"},
        "spec": {**spec, "containers": [container]},
    }
