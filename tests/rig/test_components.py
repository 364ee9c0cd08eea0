"""The programs of a rig and their configuration."""

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.rig import Network, components, config, pki
from tools.rig.addons import addons
from tools.rig.cgroups import Hierarchy

NETWORK = Network(IPv4Network("10.140.0.0/16"))
V2 = Hierarchy("", Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup"), v2=True)
ALL = {component["name"]: component for component in components.components("x", NETWORK)}
OBJECTS = list(yaml.safe_load_all(addons(NETWORK)))


def arguments(name: str) -> dict[str, str]:
    """Return a program's flags."""
    words = (word.removeprefix("--").partition("=") for word in ALL[name]["argv"][1:])
    return {flag: value for flag, _, value in words}


@pytest.mark.parametrize("component", ALL.values(), ids=ALL)
def test_what_a_program_waits_for_comes(component: dict[str, Any]) -> None:
    """A program waits for paths and for steps that exist: nothing waits for ever."""
    steps = {name for name, one in ALL.items() if one["step"]}

    assert {need for need in component["after"] if not need.startswith("/")} <= steps


def test_policies_are_enforced_from_a_node_that_exists() -> None:
    """kube-router ends silently without its node, and policies are then not enforced."""
    assert "node" in ALL["kube-router"]["after"]


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kube-router"])
def test_each_program_speaks_for_itself(name: str) -> None:
    """A program uses its own identity, never the administrator's."""
    assert arguments(name)["kubeconfig"] == f"/var/lib/rig/{name}.kubeconfig"
    assert name in pki.identities("x")


def test_nobody_is_let_in_unasked() -> None:
    """API server and kubelet ask the host who it is and what it may; etcd is reached only from within."""
    api, kubelet, etcd = arguments("kube-apiserver"), config.kubelet(NETWORK), arguments("etcd")

    assert (api["anonymous-auth"], api["authorization-mode"]) == ("false", "Node,RBAC")
    assert "NodeRestriction" in api["enable-admission-plugins"]
    assert not [flag for flag in api if "token" in flag]
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert "client-cert-auth" in etcd
    assert {value for flag, value in etcd.items() if flag.startswith("listen")} == {
        "https://127.0.0.1:2379",
        "https://127.0.0.1:2380",
    }


def test_every_program_knows_both_families() -> None:
    """With IPv6, whoever is told an IPv4 range or address is told its IPv6 counterpart; without, nobody hears of it."""
    network = Network(NETWORK.block, ipv6=True)
    both = {one["name"]: " ".join(one["argv"]) for one in components.components("x", network)}
    pairs = {f"{network.pods},{network.pods6}": 2, f"{network.services},{network.services6}": 2}

    assert {pair: sum(pair in text for text in both.values()) for pair in pairs} == pairs
    assert f"--node-ip={network.node_ip},{network.node_ip6}" in both["kubelet"]
    assert "--enable-ipv6=true" in both["kube-router"]
    assert arguments("kube-router")["enable-ipv6"] == "false"
    assert [one[0]["subnet"] for one in config.cni(network)["plugins"][0]["ipam"]["ranges"]] == [
        str(network.pods),
        str(network.pods6),
    ]
    assert "fd67" not in json.dumps([*ALL.values(), config.cni(NETWORK)])


def test_the_guard_is_up_before_anything_runs() -> None:
    """It is among the commands that must succeed first; kube-router finds what tells it before the real programs."""
    plan = components.plan(
        Path("/state"), "x", NETWORK, {name: Path(name) for name in components.PROGRAMS}, Path("a"), [V2]
    )
    commands = [" ".join(command) for command in plan["setup"]]

    assert "nft -f /var/lib/rig/guard.nft" in commands
    assert "ln -s /var/lib/rig/restore.py /run/rig/bin/iptables-restore" in commands
    assert "ln -s /var/lib/rig/restore.py /run/rig/bin/ip6tables-restore" in commands
    assert plan["environment"]["PATH"].startswith("/run/rig/bin:")
    assert not [command for command in commands if "ip6tables -w" in command]


def test_disk_of_the_host_evicts_nobody() -> None:
    """Percentages would count the host's other files; no image is ever removed, since none could be pulled again."""
    kubelet = config.kubelet(NETWORK)

    assert not [value for value in kubelet["evictionHard"].values() if "%" in value]
    assert kubelet["imageGCHighThresholdPercent"] == 100


@pytest.mark.parametrize(("able", "expected"), [(True, "false"), (False, "true")])
def test_oom_scores_without_the_capability(able: bool, expected: str) -> None:  # noqa: FBT001
    """Without CAP_SYS_RESOURCE no container would start unless scores are restricted."""
    assert f"restrict_oom_score_adj = {expected}" in config.containerd(can_raise_oom=able)


def test_the_host_keeps_var_and_kernel_wide_sysctls() -> None:
    """Whatever programs write below /var or to sysctls of the whole machine lands in the rig's folder."""
    binaries = {name: Path("/cache") / name for name in components.PROGRAMS}
    commands = components.mount_commands(Path("/state"), binaries, Path("/cache/images.tar"))
    binds = {command[3]: command[2] for command in commands if command[:2] == ["mount", "--bind"]}

    assert binds["/var"] == "/state/var"
    assert binds["/proc/sys/vm/overcommit_memory"].startswith("/var/lib/rig/")
    assert {f"/run/rig/bin/{name}" for name in components.KUBERNETES} <= set(binds)


def test_programs_on_disk_are_all_mounted() -> None:
    """Each program that a component starts is one that the rig has."""
    names = {component["argv"][0].removeprefix("/run/rig/bin/") for component in ALL.values()}

    assert names <= {*components.PROGRAMS, *components.KUBERNETES}


def test_storage_class_is_the_default_and_keeps_fs_group() -> None:
    """A claim without a class is served, by volumes on which the kubelet applies fsGroup."""
    (found,) = [one for one in OBJECTS if one["kind"] == "StorageClass"]

    assert found["metadata"]["annotations"] == {
        "storageclass.kubernetes.io/is-default-class": "true",
        "defaultVolumeType": "local",
    }
    assert found["volumeBindingMode"] == "WaitForFirstConsumer"


def test_dns_is_found_as_in_other_clusters() -> None:
    """Walls select the DNS pods by k8s-app=kube-dns; the kubelet tells pods the Service's address."""
    (service,) = [one for one in OBJECTS if one["kind"] == "Service"]
    (deployment,) = [one for one in OBJECTS if one["kind"] == "Deployment"]

    assert (
        deployment["spec"]["template"]["metadata"]["labels"] == {"k8s-app": "kube-dns"} == service["spec"]["selector"]
    )
    assert [service["spec"]["clusterIP"]] == config.kubelet(NETWORK)["clusterDNS"]


def test_nobody_but_the_administrator_may_do_everything() -> None:
    """No rule that the rig brings has a wildcard."""
    rules = [rule for one in OBJECTS for rule in one.get("rules", ())]

    assert rules
    assert "*" not in json.dumps(rules)
