"""What is odd in a stack file and harmless: said at preview, and no reason to refuse."""

import copy

import pytest

from components import derive
from stacks.load import cautions, parse
from tests.ssh_keys import ED25519
from tests.stack_files import FILES, KEY, SECRET, raw, served_by

PROD = raw(next(file for file in FILES if file.stem == "Pulumi.prod"))


def said(*cidrs: str) -> list[str]:
    """Give the cautions of the production stack with these blocked ranges in a tenant."""
    config = copy.deepcopy(PROD)
    config["tenants"]["lab-b"]["egress"] = {"blockedCidrs": list(cidrs)}
    return list(cautions(parse(config, {"gpu-runtime:secret"})))


def test_ranges_that_are_there_twice_are_named() -> None:
    """A range within another of its list, and a repeated one are each named once, with their key."""
    found = said("52.1.0.0/24", "52.1.0.0/16", "54.0.0.0/8", "fd12::/32", "54.0.0.0/8", "55.0.0.0/8")

    assert [caution.rpartition(": ")[2].partition(";")[0] for caution in found] == [
        "52.1.0.0/24 lies within 52.1.0.0/16, which is there as well",
        "54.0.0.0/8 is there twice",
    ]
    assert all(caution.startswith("gpu-runtime:tenants.lab-b.egress.blockedCidrs: ") for caution in found)


def test_source_ranges_behind_a_node_are_told() -> None:
    """A filter by the client's address is told to be one of nodes' where the cluster puts a node's in its place."""
    config = copy.deepcopy(PROD)
    config["platform"]["ssh"]["service"] |= {"sourceRanges": ["203.0.113.0/24"], "externalTrafficPolicy": "Cluster"}
    (caution,) = cautions(parse(config, {"gpu-runtime:secret"}))

    assert caution.startswith("gpu-runtime:platform.ssh.service: sourceRanges with externalTrafficPolicy Cluster")


@pytest.mark.parametrize("entrance", ["ssh", "browser"])
@pytest.mark.parametrize("said", [{"type": "ClusterIP"}, {"externalTrafficPolicy": "Cluster"}])
def test_each_entrance_is_told_whom_it_sees(entrance: str, said: dict[str, str]) -> None:
    """Inside the cluster, or behind its nodes, ranges of clients' addresses turn everybody away."""
    config = copy.deepcopy(PROD)
    config["platform"][entrance]["service"] = {"sourceRanges": ["203.0.113.0/24"], **said}
    (caution,) = cautions(parse(config, {"gpu-runtime:secret"}))
    ((key, value),) = said.items()

    assert caution.startswith(f"gpu-runtime:platform.{entrance}.service: sourceRanges with {key} {value}: ")


def test_a_key_that_has_expired_is_told() -> None:
    """It opens nothing; and as time alone brought that about, it is no reason to refuse anybody's change."""
    config = copy.deepcopy(PROD)
    keys = [f'expiry-time="20200229Z" {KEY}', f'expiry-time="22000101Z" {ED25519}']
    config["tenants"]["lab-a"]["units"]["trainer"]["ssh"]["authorizedKeys"] = keys
    (caution,) = cautions(parse(config, {"gpu-runtime:secret"}))

    path = "gpu-runtime:tenants.lab-a.units.trainer.ssh.authorizedKeys.0"
    assert caution == f"{path}: expired on 2020-02-29 00:00 UTC and opens nothing; remove it"


def test_five_hundred_ranges_are_nothing_odd() -> None:
    """A long list is merged and taken as it is."""
    assert said(*(f"52.{n % 250}.{n // 250}.0/24" for n in range(500))) == []


def test_a_server_without_a_gate_is_told() -> None:
    """Who uses a tunnel server elsewhere is told that its token opens every host, unless it is said to ask a gate."""
    config = copy.deepcopy(PROD)
    ca = derive.Authority(SECRET, 0, "elsewhere").certificate
    del config["platform"]["admits"]
    found = {}
    for gate in (False, True):
        server = {"address": "198.18.9.9", "name": "frps.example.com", "ca": ca, "gate": gate}
        config["platform"]["ssh"] = served_by(server, config["platform"]["ssh"])
        given = {"platformKeys": {"key": "0" * 64, "token": SECRET}} if gate else {"serverToken": SECRET}
        made = parse({**config, **given}, {f"gpu-runtime:{key}" for key in ("secret", *given)})
        found[gate] = [caution for caution in cautions(made) if "without a gate" in caution]

    assert (len(found[False]), found[True]) == (1, [])
    assert "can announce any unit's host" in found[False][0]
