"""What the proxy comes to, and what its parts must agree on."""

import json
from dataclasses import replace
from typing import Any

from routes import claims

from components.derive import Authority
from components.flows import PROXY as PODS
from components.flows import ApiServers
from components.model import Manifest
from components.oidc_files import oidc_files
from components.oidc_spec import OidcSpec
from components.proxy import GRACE_SECONDS, Proxy, ProxySecrets, proxy_manifests, rows_of_proxy
from components.proxy_config import EVERY, EVERY_IPV4, Places, bootstrap
from components.proxy_filters import BASIC_AUTH, NOBODY
from components.proxy_oidc import CLAIMS_RULE, PASSWORD_POLICY
from components.proxy_rules import METADATA
from components.proxy_spec import CertManagerTls, IssuerRef, ProxyLimitsSpec, ProxySpec, SecretTls
from components.routes import Routes
from policy.law import judge
from tests.conftest import Golden
from tests.stack_files import image

ROUTES = Routes(image("routes"), ("test", "lab"), "files.example.com", 443, ("10.244.0.0/16", "fd00:244::/56"))
PROXY = Proxy(
    ProxySpec(host="files.example.com"), "test", image("proxy"), ROUTES, ApiServers(("198.18.7.10/32",)), alone=True
)
SECRETS = ProxySecrets({"tls.crt": "CERTIFICATE", "tls.key": "KEY"})
ISSUER = OidcSpec(
    issuer="https://id.example.com",
    client_id="gpu-runtime",
    authorization_endpoint="https://id.example.com/authorize",
    token_endpoint="https://id.example.com/token",
    jwks_uri="https://keys.example.com:8443/jwks",
    cidrs=("11.0.0.7/32", "10.1.2.3/32"),
    ca=Authority("0123456789abcdef" * 4, 0, "test").certificate,
)
WITH_ISSUER = replace(PROXY, spec=ProxySpec(host="files.example.com", oidc=ISSUER))
FILES = oidc_files("the-client-secret", "the-session-key", "the-callback-key")


def test_proxy(golden: Golden) -> None:
    """The proxy is reviewed as one file, Envoy's configuration included."""
    golden("proxy.yaml", proxy_manifests(PROXY, SECRETS))


def pod(proxy: Proxy) -> Any:
    """Give the pod of the proxy."""
    return proxy_manifests(proxy, SECRETS)["deployment"]["spec"]["template"]["spec"]


def test_only_routes_has_a_token() -> None:
    """The program that faces clients has nothing to ask the cluster with."""
    (envoy,), (routes,) = pod(PROXY)["containers"], pod(PROXY)["initContainers"]

    assert "api" in {mounted["name"] for mounted in routes["volumeMounts"]}
    assert "api" not in {mounted["name"] for mounted in envoy["volumeMounts"]}
    assert "tls" not in {mounted["name"] for mounted in routes["volumeMounts"]}


def test_an_end_has_the_time_that_its_drain_needs() -> None:
    """The kubelet kills nobody who still waits."""
    longer = replace(PROXY, spec=ProxySpec(host="files.example.com", drain="1h"))
    (envoy,) = pod(longer)["containers"]

    assert envoy["lifecycle"]["preStop"]["exec"]["command"][-1] == "--seconds=3600"
    assert pod(longer)["terminationGracePeriodSeconds"] >= 3600 + GRACE_SECONDS


def test_a_certificate_of_others_is_not_made() -> None:
    """A given Secret is mounted as it is; cert-manager is asked for the main host and one label below."""
    given = replace(PROXY, spec=ProxySpec(host="files.example.com", tls=SecretTls(kind="secret", name="wild")))
    issuer = CertManagerTls(kind="certManager", issuer=IssuerRef(name="x"))
    asked = proxy_manifests(replace(PROXY, spec=ProxySpec(host="files.example.com", tls=issuer)), ProxySecrets({}))

    assert "certificate" not in proxy_manifests(given, ProxySecrets({}))
    assert [v["secret"]["secretName"] for v in pod(given)["volumes"] if v["name"] == "tls"] == ["wild"]
    assert asked["certificate"]["spec"]["dnsNames"] == ["files.example.com", "*.files.example.com"]


def test_ipv6_is_taken_where_pods_have_it() -> None:
    """Elsewhere a node may have no IPv6 at all, and the proxy would not start."""

    def listening(proxy: Proxy) -> set[str]:
        told = json.loads(proxy_manifests(proxy, SECRETS)["config"]["data"]["envoy.json"])
        listeners = told["static_resources"]["listeners"]
        return {one["address"]["socket_address"]["address"] for one in listeners}

    assert listening(PROXY) == {EVERY}
    assert listening(replace(PROXY, routes=replace(ROUTES, pods=("10.244.0.0/16",)))) == {EVERY_IPV4}


def test_nobody_is_the_filters_only_user() -> None:
    """Hosts that say no users have this one, whose hash is all zeros; administration is no port."""
    made = bootstrap("files.example.com", ProxyLimitsSpec(), 1 << 30, Places())
    filters = made["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][-1]["typed_config"][
        "http_filters"
    ]
    (users,) = (f["typed_config"]["users"] for f in filters if f["name"] == BASIC_AUTH)

    assert users == {"inline_string": f"{NOBODY}\n"}
    assert set(made["admin"]["address"]) == {"pipe"}


def made(proxy: Proxy) -> dict[str, Manifest]:
    """Give the objects of a proxy with an issuer."""
    return proxy_manifests(proxy, replace(SECRETS, oidc=FILES))


def test_an_issuers_secret_is_in_a_secret_alone() -> None:
    """What the proxy proves itself with is for Envoy, the key of codes for what seals them, and in no other object."""
    objects, words = made(WITH_ISSUER), ("the-client-secret", "the-session-key", "the-callback-key")
    having = [role for role, one in objects.items() if any(word in str(one) for word in words)]
    secrets = {one["name"]: one["secret"] for one in pod(WITH_ISSUER)["volumes"] if "secret" in one}
    containers = [*pod(WITH_ISSUER)["containers"], *pod(WITH_ISSUER)["initContainers"]]
    mounted = {one["name"]: {mount["name"] for mount in one["volumeMounts"]} & set(secrets) for one in containers}

    assert having == ["oidc"]
    assert "oidc" not in made(PROXY)
    assert mounted == {"envoy": {"tls", "oidc"}, "routes": set(), "callback": {"callback-key"}}
    assert {one["secretName"] for name, one in secrets.items() if name != "tls"} == {"proxy-oidc"}
    assert secrets["callback-key"]["items"] == [{"key": "callback", "path": "callback"}]


def test_an_issuer_is_the_only_address_that_is_opened() -> None:
    """The walls open the issuer's ranges at the ports of its two addresses, and DNS; without an issuer neither."""
    new = [row for row in rows_of_proxy(WITH_ISSUER) if row not in rows_of_proxy(PROXY)]

    assert {(row.source.words, row.target.words, tuple(port.number for port in row.ports)) for row in new} == {
        ("proxy", "the issuer of identities", (443, 8443)),
        ("proxy", "cluster DNS", (53, 53)),
    }
    assert all(row.source == PODS for row in new)
    assert judge(list(made(WITH_ISSUER).values())) == []


def test_routes_says_claims_in_the_filters_words() -> None:
    """`routes` names the filter as the proxy does, and lets in who said a right password as that does by itself."""
    assert (claims.RBAC, claims.RULES) == (CLAIMS_RULE, METADATA)
    said = claims.judge([("lab-a", (("groups", ("team",)),))])["rbac"]
    assert said["rules"]["policies"]["password"] == PASSWORD_POLICY
