"""What is odd in a stack file and harmless: said at preview, and no reason to refuse."""

import copy

from stacks.load import cautions, parse
from tests.stack_files import FILES, raw

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


def test_five_hundred_ranges_are_nothing_odd() -> None:
    """A long list is merged and taken as it is."""
    assert said(*(f"52.{n % 250}.{n // 250}.0/24" for n in range(500))) == []
