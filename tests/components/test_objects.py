"""What tenant, storage and tunnel tier come to, and the walls around tenants."""

from dataclasses import replace

import pytest

from components import names
from components.bundle import Bundle
from components.dns import DnsSpec
from components.egress import Egress
from components.entry import INTERNAL, ServiceSpec
from components.flows import ApiServers
from components.gpu_storage import storage_manifests
from components.prepare_spec import ImagePrepare
from components.storage_spec import Storage, StorageSpec
from components.tenant import QuotaSpec, TenantSpec, tenant_manifests
from components.tunnel import ConnectSpec, FrpSpec, TierImages, Tunnel, TunnelSecrets, tunnel_manifests
from tests.conftest import Golden
from tests.stack_files import image

TENANT = TenantSpec(
    name="lab-a",
    namespace="lab-a",
    owner="test",
    gpus={"nvidia.com/gpu": 4},
    quota=QuotaSpec(cpu="64", memory="512Gi", storage="2Ti"),
    dns=DnsSpec(),
    egress=Egress(("10.0.0.0/8", "203.1.0.0/16")),
    retained=True,
)
PREPARE = ImagePrepare(kind="image", image=image("python"), command=("make", "data"))
STORAGE = Storage(
    name="dataset",
    tenant="lab-a",
    namespace="lab-a",
    owner="test",
    spec=StorageSpec(size="200Gi", prepare=PREPARE),
    storage_class="fast",
    access_mode="ReadWriteOnce",
    bundle=Bundle(image("bundle"), as_volume=False),
    prepare_image=image("python"),
)
SPEC = FrpSpec(kind="frp", domain_suffixes=("ssh.example.com",), connect=ConnectSpec(host="ssh.example.com"))
API = ApiServers(("198.18.7.10/32",))
TUNNEL = Tunnel(SPEC, "test", TierImages(image("entrance"), image("frp"), image("gate")), API)
SECRETS = TunnelSecrets({"token": "T"}, {"key": "K"}, "fingerprint-1", "fingerprint-2")
ADDRESSES = {"gate": "10.43.0.9", "frps-0": "10.43.0.10", "frps-1": "10.43.0.11"}


def test_tenant(golden: Golden) -> None:
    """A tenant's namespace, quota and walls are reviewed as one file."""
    golden("tenant.yaml", tenant_manifests(TENANT))


def test_storage(golden: Golden) -> None:
    """A storage's claim and prepare job are reviewed as one file."""
    golden("storage.yaml", storage_manifests(STORAGE))


def test_tunnel(golden: Golden) -> None:
    """The tunnel tier is reviewed as one file."""
    golden("tunnel.yaml", tunnel_manifests(TUNNEL, SECRETS, ADDRESSES))


def test_source_ranges_close_the_entrance_twice() -> None:
    """Ranges of clients are said to the load balancer and enforced by the policy, too."""
    service = ServiceSpec(type="LoadBalancer", source_ranges=("198.18.0.0/15",))
    made = tunnel_manifests(replace(TUNNEL, spec=SPEC.model_copy(update={"service": service})), SECRETS, ADDRESSES)

    assert made["entrance"]["spec"]["loadBalancerSourceRanges"] == ["198.18.0.0/15"]
    assert made["frps-in-policy"]["spec"]["ingress"][0]["from"] == [{"ipBlock": {"cidr": "198.18.0.0/15"}}]


def test_an_internal_entrance_is_said_in_the_words_of_each_cloud() -> None:
    """It is asked for with every cloud's own annotation, beside those of the stack file."""
    own = {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal", "example.com/mine": "x"}
    service = ServiceSpec(internal=True, annotations=own)
    made = tunnel_manifests(replace(TUNNEL, spec=SPEC.model_copy(update={"service": service})), SECRETS, ADDRESSES)
    said = made["entrance"]["metadata"]["annotations"]

    assert said.items() >= {**INTERNAL, **own}.items()


def test_an_entrance_is_open_to_the_clouds_choice_by_default() -> None:
    """Without `internal` nothing is said, so that no cloud is told what its operator did not ask for."""
    said = tunnel_manifests(TUNNEL, SECRETS, ADDRESSES)["entrance"]["metadata"]["annotations"]

    assert not set(said) & set(INTERNAL)


def test_nobody_reaches_the_api_of_frps() -> None:
    """Its API and dashboard listen on loopback, without metrics, and the policy opens the ports of the table."""
    made = tunnel_manifests(TUNNEL, SECRETS, ADDRESSES)
    said = made["frps-config"]["data"]["frps.toml"]
    opened = {port["port"] for rule in made["frps-in-policy"]["spec"]["ingress"] for port in rule["ports"]}

    assert 'webServer.addr = "127.0.0.1"' in said
    assert "enablePrometheus" not in said
    assert opened == {names.CONNECT_PORT, names.TUNNEL_PORT, names.STATE_PORT}


@pytest.mark.parametrize("kind", ["ingress", "egress"])
def test_a_tenant_is_closed_by_default(kind: str) -> None:
    """One policy selects every pod of the namespace and opens nothing, in both directions."""
    spec = tenant_manifests(TENANT)["default-deny"]["spec"]

    assert spec["podSelector"] == {}
    assert kind.capitalize() in spec["policyTypes"]
    assert kind not in spec


def test_gpus_that_were_not_granted_are_closed() -> None:
    """Every accelerator resource has a hard limit in the quota: what was granted, or 0."""
    hard = tenant_manifests(TENANT)["quota"]["spec"]["hard"]

    assert hard["requests.nvidia.com/gpu"] == "4"
    assert hard["requests.amd.com/gpu"] == "0"
    assert (hard["services.nodeports"], hard["services.loadbalancers"]) == ("0", "0")
