"""What the proxy comes to, and what its parts must agree on."""

from dataclasses import replace
from typing import Any

from components.flows import ApiServers
from components.proxy import GRACE_SECONDS, Proxy, ProxySecrets, proxy_manifests
from components.proxy_config import Places, bootstrap
from components.proxy_filters import BASIC_AUTH, NOBODY
from components.proxy_spec import CertManagerTls, IssuerRef, ProxyLimitsSpec, ProxySpec, SecretTls
from components.routes import Routes
from tests.conftest import Golden
from tests.stack_files import image

ROUTES = Routes(image("routes"), ("test", "lab"), "files.example.com", 443)
PROXY = Proxy(
    ProxySpec(host="files.example.com"), "test", image("proxy"), ROUTES, ApiServers(("198.18.7.10/32",)), alone=True
)
SECRETS = ProxySecrets({"tls.crt": "CERTIFICATE", "tls.key": "KEY"})


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


def test_nobody_is_the_filters_only_user() -> None:
    """Hosts that say no users have this one, whose hash is all zeros; administration is no port."""
    made = bootstrap("files.example.com", ProxyLimitsSpec(), 1 << 30, Places())
    filters = made["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
    (users,) = (f["typed_config"]["users"] for f in filters if f["name"] == BASIC_AUTH)

    assert users == {"inline_string": f"{NOBODY}\n"}
    assert set(made["admin"]["address"]) == {"pipe"}
