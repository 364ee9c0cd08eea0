"""Entrances, limits and domains in bad stack files: what would fail later, or be undone in silence, is refused."""

from typing import Any

import pytest

from components import derive
from components.entrance_config import LimitsSpec, haproxy_cfg
from components.entry import INTERNAL
from stacks.host_checks import LONGEST_HOST
from stacks.load import parse
from stacks.problems import RefusedError
from stacks.resolve import Stack
from stacks.schema import StackConfig
from tests.stack_files import ENCRYPTED, SECRET, STACKS, raw
from tests.stacks.test_refusals import LAB, PROD, at, refused

SSH = "platform.ssh"
SERVICES = [f"{SSH}.service", "platform.browser.service"]
SUFFIXES = f"{SSH}.domainSuffixes"
LONG = ".".join("a" * 61 for _ in range(4))
"""A suffix of 247 characters: a host name by itself."""


@pytest.mark.parametrize(
    ("path", "value", "where", "advice"),
    [
        (SUFFIXES, [LONG], f"{LAB}.units.trainer: ", "trainer.gpu-lab-a.<suffix> has 265 characters; 253 fit DNS"),
        (SUFFIXES, ["a.example", "a.example"], f"{SUFFIXES}: ", "'a.example' is named 2 times; once is enough"),
        (SUFFIXES, ["a.example", "10.0.0.1"], f"{SUFFIXES}.1: ", "'10.0.0.1' is an address, and nothing is below one"),
        (SUFFIXES, ["localhost"], f"{SUFFIXES}.0: ", "the client's own machine; name a domain of yours"),
        (SUFFIXES, ["cluster.local"], f"{SUFFIXES}.0: ", "the cluster's own DNS"),
        (SUFFIXES, ["x.svc.cluster.local"], f"{SUFFIXES}.0: ", "the cluster's own DNS"),
        (
            f"{SSH}.limits",
            {"perUnit": 500, "tunnel": {"perSource": 8}},
            f"{SSH}.limits.tunnel.perSource: ",
            "8 is too few beside limits.perUnit, which is 500",
        ),
        (
            f"{SSH}.limits",
            {"tunnel": {"perSource": 127}},
            f"{SSH}.limits.tunnel.perSource: ",
            "127 is too few beside limits.perUnit, which is 128",
        ),
        (
            f"{SSH}.limits",
            {"perUnit": 32, "perSourceOfUnit": 32},
            f"{SSH}.limits.perSourceOfUnit: ",
            "32 is not below limits.perUnit, which is 32: one source could shut everybody else out",
        ),
        (
            f"{SSH}.limits",
            {"perSourceOfUnit": 75},
            f"{SSH}.limits.perSourceOfUnit: ",
            "75 at each of 2 servers is 150 for one source, and from 150 on that have not logged in",
        ),
        (
            f"{SSH}.limits",
            {"perSourceOfUnit": 80},
            f"{SSH}.limits.perSourceOfUnit: ",
            "a unit's sshd turns logins away; say 74 at most",
        ),
        (
            f"{SSH}.limits",
            {"newPerSource": 500, "tunnel": {"newPerSource": 500}},
            f"{SSH}.limits.tunnel.newPerSource: ",
            "which is 500, since each session takes a connection of its unit; say 501 or more",
        ),
        (
            f"{SSH}.limits",
            {"total": 100, "tunnel": {"total": 99}},
            f"{SSH}.limits.tunnel.total: ",
            "99 is too few beside limits.total, which is 100",
        ),
        (f"{SSH}.replicas", True, f"{SSH}.replicas: ", "must be a whole number; true and false are none"),
    ],
)
def test_refused(path: str, value: object, where: str, advice: str) -> None:
    """The refusal names the path and what would be right."""
    (line,) = [line for line in refused(at(path, value)).splitlines() if f"gpu-runtime:{where}" in line]

    assert advice in line


@pytest.mark.parametrize("path", SERVICES)
@pytest.mark.parametrize(
    ("annotations", "advice"),
    [
        (dict.fromkeys(INTERNAL, "x"), "internal: true is contradicted by its annotation"),
        *(({key: "x"}, f"{key}: x (internal is {word})") for key, word in INTERNAL.items()),
        ({"pulumi.com/skipAwait": "false"}, "pulumi.com/skipAwait: 'pulumi.com/skipAwait': tells the engine"),
        ({"a b!": "x"}, "annotations.a b!: 'a b!': must be an annotation's key such as example.com/name"),
        ({"a..b/c": "x"}, "must be an annotation's key"),
        ({"/c": "x"}, "must be an annotation's key"),
        ({"a" * 64: "x"}, "must be an annotation's key"),
        ({"a" * 254 + "/c": "x"}, "must be an annotation's key"),
    ],
)
def test_annotations_of_an_entrance(path: str, annotations: dict[str, str], advice: str) -> None:
    """None undoes `internal`, none is the engine's, and the API server would take each."""
    said = refused(at(path, {"type": "LoadBalancer", "internal": True, "annotations": annotations}))

    assert f"gpu-runtime:{path}" in said
    assert advice in said


@pytest.mark.parametrize("path", SERVICES)
@pytest.mark.parametrize(
    "service",
    [
        {"internal": True, "annotations": INTERNAL},
        {"annotations": dict.fromkeys(INTERNAL, "x")},
        {"internal": True, "annotations": {"example.com/Mine": "x", "a" * 63: "y", f"{'a' * 253}/b": "z"}},
    ],
)
def test_annotations_that_are_taken(path: str, service: dict[str, Any]) -> None:
    """What repeats `internal`, or says anything where it is not asked for, is the site's own to say."""
    assert isinstance(parse(_changed(path, service), ENCRYPTED), StackConfig)


@pytest.mark.parametrize(
    ("said", "pair"), [({}, 32), ({"perUnit": 20}, 19), ({"perUnit": 2}, 1), ({"perSourceOfUnit": 7}, 7)]
)
def test_one_source_of_a_unit_has_a_share_that_fits(said: dict[str, Any], pair: int) -> None:
    """Unless it is said, it leaves room for others at one server."""
    limits = LimitsSpec.model_validate(said)

    assert limits.of_pair == pair
    assert f"sc2_conn_cur(pairs) gt {pair} " in haproxy_cfg(limits, 60)


def test_many_servers_want_a_smaller_share() -> None:
    """From five on the default of all together is more than a unit's sshd takes: a stack says what it wants instead."""
    assert isinstance(parse(_changed(f"{SSH}.replicas", 4), ENCRYPTED), StackConfig)
    assert "32 at each of 5 servers is 160 for one source" in refused(at(f"{SSH}.replicas", 5))


@pytest.mark.parametrize(
    "limits",
    [
        {"perUnit": 8, "perSourceOfUnit": 7, "tunnel": {"perSource": 8}},
        {"total": 8, "tunnel": {"total": 8}},
        {"perSourceOfUnit": 74},
        {"newPerSource": 500, "tunnel": {"newPerSource": 501}},
    ],
)
def test_limits_that_fit(limits: dict[str, Any]) -> None:
    """As many connections of units as sessions are no contradiction, nor one source just below what sshd takes."""
    assert isinstance(parse(_changed(f"{SSH}.limits", limits), ENCRYPTED), StackConfig)


@pytest.mark.parametrize(("key", "value"), [("replicas", 2), ("limits", {}), ("drain", "5m"), ("service", {})])
def test_what_is_said_of_our_own_servers_is_refused_beside_another(key: str, value: object) -> None:
    """Nothing would be made of it, a default that is written included; defaults that nobody wrote are no problem."""
    ca = derive.Authority(SECRET, 0, "elsewhere").certificate

    def change(config: dict[str, Any]) -> None:
        had = config["platform"]["ssh"]
        server = {"address": "10.9.9.9", "name": "frps.example.com", "ca": ca}
        kept = {other: had[other] for other in ("kind", "domainSuffixes", "connect")}
        config["platform"] = {"ssh": {**kept, "server": server, key: value}, "browser": PROD_BROWSER}
        config["serverToken"] = SECRET

    said = refused(change)

    assert "1 problem" in said
    assert f"gpu-runtime:{SSH}.{key}: is for our own tunnel servers; `server` stands in their place" in said


def test_a_host_as_long_as_dns_takes_is_taken() -> None:
    """The longest unit of the stack may fill a name, and not more."""
    units = Stack(parse(PROD, ENCRYPTED), "prod").units.values()
    below = [unit.host.removesuffix("ssh.example.com") for unit in units if unit.host.endswith(".ssh.example.com")]
    suffix = LONG[: LONGEST_HOST - max(map(len, below))]
    config = _changed(SUFFIXES, [suffix, "ssh.example.org"])

    assert isinstance(parse(config, ENCRYPTED), StackConfig)
    with pytest.raises(RefusedError, match="has 254 characters"):
        parse(_changed(SUFFIXES, [f"a{suffix}", "ssh.example.org"]), ENCRYPTED)


def test_a_stack_does_not_admit_itself() -> None:
    """Its units need nobody's leave, and another stack of that name may have been meant."""
    with pytest.raises(RefusedError, match=r"platform\.admits: 'lab' is this stack"):
        parse(PROD, ENCRYPTED, "lab")
    assert isinstance(parse(PROD, ENCRYPTED, "prod"), StackConfig)


PROD_BROWSER = PROD["platform"]["browser"]


def _changed(path: str, value: object) -> dict[str, Any]:
    config = raw(STACKS / "Pulumi.prod.yaml")
    at(path, value)(config)
    return config
