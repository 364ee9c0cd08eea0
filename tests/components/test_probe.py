"""The probe: what it tries, what it is named by, and that it wears the walls that it proves."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from probe.targets import read

from components import names
from components.dns import DnsSpec
from components.egress import Egress
from components.probe import ProbeSpec, probe_manifests
from components.probe_targets import Surroundings, targets
from components.tenant import QuotaSpec, TenantSpec, tenant_manifests
from policy.baseline import BLOCKED_V4, METADATA
from policy.law import judge
from tests.components.test_objects import TUNNEL
from tests.conftest import Golden
from tests.stack_files import image

AROUND = Surroundings(
    tunnel=TUNNEL.spec,
    api_servers=("198.18.0.0/28", "198.18.7.7/32"),
    api_ports=(443, 6443),
    holes=(),
    services=tuple((f"u{n}.lab-b", f"unit-u{n}.lab-b.svc", 8888) for n in range(5)),
)
NAMESPACE = names.probe_namespace("dev")
TENANT = TenantSpec(
    name=names.PROBE_TENANT,
    namespace=NAMESPACE,
    owner="dev",
    gpus={},
    quota=QuotaSpec(),
    dns=DnsSpec(),
    egress=Egress(),
)
POLICIES = [manifest for manifest in tenant_manifests(TENANT).values() if manifest["kind"] == "NetworkPolicy"]
SPEC = ProbeSpec("dev", image("probe"), tuple(targets(AROUND)), tuple(POLICIES))


def hosts(around: Surroundings) -> dict[str, str]:
    """Give what is tried, by name."""
    return {target["name"]: f"{target['host']}:{target['port']}" for target in targets(around)}


def test_targets(golden: Golden) -> None:
    """What a tenant must not reach is reviewed as one list."""
    golden("probe-targets.yaml", targets(AROUND))


def test_job(golden: Golden) -> None:
    """The probe's Job is reviewed as one file."""
    job = copy.deepcopy(probe_manifests(SPEC)["job"])
    named = {job["metadata"].pop("name"), job["spec"]["template"]["spec"]["volumes"][0]["configMap"].pop("name")}

    assert named == {SPEC.name}
    golden("probe-job.yaml", job)


def test_the_program_in_the_image_reads_the_targets(tmp_path: Path) -> None:
    """The list is in the words of services/probe."""
    (data,) = probe_manifests(SPEC)["config"]["data"].values()
    (tmp_path / "targets.json").write_text(data)
    variables = {"NAMESERVERS": "10.96.0.10", "KUBERNETES_SERVICE_HOST": "10.96.0.1", "NODE_IP": "10.0.0.7"}

    found = read(tmp_path / "targets.json", variables)

    assert [target.where for target in found[:4]] == [
        "10.96.0.10:53/UDP",
        "10.96.0.10:53/TCP",
        "10.96.0.1:443/TCP",
        "198.18.7.7:443/TCP",
    ]
    assert {target.expect for target in found[2:]} == {"closed"}


def test_the_probe_obeys_the_law_in_the_walls_of_a_tenant() -> None:
    """It wears what a tenant's pod wears; with any policy gone the law refuses it, as it would a unit."""
    manifests = [*tenant_manifests(TENANT).values(), *probe_manifests(SPEC).values()]

    assert judge(manifests) == []
    assert judge([manifest for manifest in manifests if manifest["kind"] != "NetworkPolicy"]) != []


def test_a_probe_without_its_own_tunnel_tier_asks_for_none() -> None:
    """What is elsewhere is not tried by the names of what would be here."""
    gone = set(hosts(AROUND)) - set(hosts(replace(AROUND, tunnel=None)))

    assert gone == {"gate", "frps-0", "entrance"}


def test_the_node_port_is_tried_where_there_is_one() -> None:
    """The way round by the node is closed too."""
    service = TUNNEL.spec.service.model_copy(update={"node_port": 31337})
    tunnel = TUNNEL.spec.model_copy(update={"service": service})

    assert hosts(replace(AROUND, tunnel=tunnel))["node port of the entrance"] == "$NODE_IP:31337"


def test_every_metadata_address_and_blocked_range_is_tried() -> None:
    """Each built-in range that a packet can leave a pod for has a target in it."""
    found = hosts(AROUND)

    assert {f"{cidr.partition('/')[0]}:80" for cidr in METADATA} <= set(found.values())
    tried = {name.removeprefix("range ") for name in found if name.startswith("range ")}
    with_metadata = {"100.64.0.0/10", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.0/24"}
    assert set(BLOCKED_V4) - tried == {"127.0.0.0/8", "224.0.0.0/4"} | with_metadata


@pytest.mark.parametrize(
    ("holes", "tried"),
    [
        (("10.0.0.0/24",), "10.0.1.0:443"),
        (("10.0.0.0/24", "10.0.1.0/24", "172.16.0.0/16"), "10.0.2.0:443"),
        (("10.0.5.0/24",), "10.0.0.1:443"),
        (("10.0.0.0/8",), None),
    ],
)
def test_what_a_site_opened_is_not_tried(holes: tuple[str, ...], tried: str | None) -> None:
    """A hole with a reason is no failure of the walls; the rest of its range still is."""
    assert hosts(replace(AROUND, holes=holes)).get("range 10.0.0.0/8") == tried


CHANGES: dict[str, dict[str, Any]] = {
    "image": {"image": image("other")},
    "target": {"targets": SPEC.targets[:-1]},
    "policy gone": {"walls": SPEC.walls[1:]},
    "policy twice": {"walls": (*SPEC.walls, SPEC.walls[0])},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_walls_are_another_job(change: dict[str, Any]) -> None:
    """Whatever could change the outcome runs the probe again."""
    assert replace(SPEC, **change).name != SPEC.name


def test_a_changed_rule_is_another_job() -> None:
    """One port more is enough."""
    walls = copy.deepcopy(SPEC.walls)
    walls[1]["spec"]["egress"][0]["ports"].append({"protocol": "TCP", "port": 1})

    assert replace(SPEC, walls=walls).name != SPEC.name


def test_the_same_walls_are_the_same_job() -> None:
    """Order and labels of policies are no walls: a probe that was right is not run again for them."""
    walls = copy.deepcopy(SPEC.walls[::-1])
    for policy in walls:
        policy["metadata"]["labels"] = {}

    assert replace(SPEC, walls=walls).name == SPEC.name


def test_the_targets_are_the_jobs_own() -> None:
    """The list is named like its Job, so that a pod of another Job never reads it."""
    config = probe_manifests(SPEC)["config"]

    assert config["metadata"]["name"] == SPEC.name
    assert json.loads(config["data"]["targets.json"]) == list(SPEC.targets)
