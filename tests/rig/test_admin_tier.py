"""The admin tier before a real API server that serves its kind."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.components.test_admin_tier import EGRESS, MANY, made
from tests.rig.cluster import Cluster

PIN = Path(__file__).with_name("network-policy-api")
MODULE = "sigs.k8s.io/network-policy-api"
DEFINITION = "config/crd/standard/policy.networking.k8s.io_clusternetworkpolicies.yaml"


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Cluster:
    """Give the rig with the kind defined as its authors define it, from the module that go.sum pins."""
    if shutil.which("go") is None:
        pytest.skip("the kind's definition comes with a Go module: install Go to test against it")
    download = ["go", "mod", "download", "-json", MODULE]
    done = subprocess.run(download, cwd=PIN, check=True, capture_output=True, text=True)
    definition = f"--filename={Path(json.loads(done.stdout)['Dir']) / DEFINITION}"
    cluster.kubectl("apply", definition)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", definition)
    return cluster


def take(cluster: Cluster, policies: list[Any]) -> str:
    """Let the API server judge *policies*, strictly, and keep none."""
    return cluster.kubectl(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "--output=name",
        "--filename=-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": policies}),
    )


@pytest.mark.parametrize("egress", [EGRESS, MANY], ids=["one", "many"])
def test_the_api_server_takes_them(server: Cluster, egress: Any) -> None:
    """Every field, form and limit is the kind's own, also with a thousand ranges."""
    policies = made(egress)

    assert len(take(server, policies).splitlines()) == len(policies)


def test_the_api_server_takes_no_more(server: Cluster) -> None:
    """It does judge: a rule beyond the limit is refused, and so is a field that it does not know."""
    full, strange = made(MANY)[0], made(EGRESS)[0]
    full["spec"]["egress"].append(full["spec"]["egress"][0])
    strange["spec"]["egres"] = []

    for policy, words in ((full, "must have at most 25 items"), (strange, "unknown field")):
        with pytest.raises(AssertionError, match=words):
            take(server, [policy])
