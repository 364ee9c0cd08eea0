"""The proxy in bad stack files: each mistake is refused with its path and advice."""

from typing import Any

import pytest

from components import derive
from policy.law import judge
from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import SECRET, STACKS, raw, served_by
from tests.stacks.test_refusals import LAB, at, refused


@pytest.mark.parametrize(
    ("path", "value", "advice"),
    [
        ("host", "Files.example.com", "must be a lower-case host name"),
        ("host", "10.1.2.3", "must be a host name that others can be below, such as files.example.com; 10.1.2.3 is an"),
        ("host", "files.127", "must be a host name that others can be below"),
        ("host", ".".join(["a" * 60] * 4), "at most 189"),
        ("drain", "2h", "must be at most 1h"),
        ("tls", {"kind": "none"}, "'derived', 'secret', 'certManager'"),
        ("tls", {"kind": "secret"}, "is missing"),
        ("limits.perSource", 0, "greater than or equal to 1"),
        ("limits.connectionsPerSource", 5, "greater than or equal to 6"),
        ("limits.openPerTenant", 99, "greater than or equal to 100"),
        ("limits.openPerTenant", 1001, "less than or equal to 1000"),
        ("limits.newConnectionsPerSource", 1, "greater than or equal to 2"),
        (
            "limits",
            {"connections": 100, "connectionsPerSource": 101},
            "connectionsPerSource: is 101, and limits.connections is 100: one source could shut out everybody",
        ),
        (
            "limits",
            {"connections": 100, "connectionsPerSource": 100},
            "connectionsPerSource: is 100, and limits.connections is 100: one source could shut out everybody",
        ),
        (
            "limits",
            {"connections": 6},
            "connectionsPerSource: is 6, and limits.connections is 6: one source could shut out everybody",
        ),
        ("user", "x", "is no key of this release"),
        ("service.type", "ExternalName", "LoadBalancer"),
    ],
)
def test_refused(path: str, value: object, advice: str) -> None:
    """The refusal names the path and what would be right."""
    message = refused(at(f"platform.browser.{path}", value=value))
    assert f"platform.browser.{path.partition('.')[0]}" in message
    assert advice in message


@pytest.mark.parametrize("limits", [{"connections": 7}, {"connections": 100, "connectionsPerSource": 99}])
def test_a_share_that_is_not_all_is_taken(limits: dict[str, int]) -> None:
    """However little it leaves to others, it leaves some."""
    config = raw(STACKS / "Pulumi.prod.yaml")
    config["platform"]["browser"]["limits"] = limits
    parse(config, {"gpu-runtime:secret", "gpu-runtime:serverToken"})


def test_a_browser_without_a_proxy_is_told() -> None:
    """Nobody would reach it."""

    def change(config: dict[str, Any]) -> None:
        del config["platform"]["browser"]

    message = refused(change)
    assert (
        f"{LAB}.storages.imagenet.browser: nobody would reach it: there is no proxy; say gpu-runtime:platform"
        in message
    )


def test_a_proxy_needs_its_images() -> None:
    """The refusal names them, and how to get them."""

    def change(config: dict[str, Any]) -> None:
        del config["images"]["proxy"], config["images"]["routes"]

    assert "lacks proxy, routes, which gpu-runtime:platform.browser needs" in refused(change)


def test_a_proxy_is_told_where_pods_are() -> None:
    """It asks nobody else, whatever the cluster's objects say."""
    assert "cluster.podCidrs: is missing: the proxy asks pods in these ranges" in refused(at("cluster.podCidrs", []))


def test_a_proxy_stands_alone() -> None:
    """With tunnel servers elsewhere the platform's namespace is the proxy's to make, closed like the other."""
    config = raw(STACKS / "Pulumi.prod.yaml")
    ca = derive.Authority(SECRET, 0, "elsewhere").certificate
    server = {"address": "10.9.9.9", "port": 7001, "name": "frps.example.com", "ca": ca}
    config["platform"]["ssh"] = served_by(server, config["platform"]["ssh"])
    config["serverToken"] = "the-token-of-somebody-elses-server"
    del config["platform"]["admits"]
    stack = Stack(parse(config, {"gpu-runtime:secret", "gpu-runtime:serverToken"}), "prod")
    made = {(m["kind"], m["metadata"]["name"], m["metadata"].get("namespace")) for m in stack.manifests()}

    assert ("Namespace", "gpu-runtime", None) in made
    assert ("NetworkPolicy", "default-deny", "gpu-runtime") in made
    assert ("NetworkPolicy", "default-deny", "gpu-runtime-access") in made
    assert {"gpu-runtime", "gpu-runtime-access"} <= set(stack.namespaces)
    assert judge(stack.manifests()) == []
