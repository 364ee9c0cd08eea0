"""Two stacks, one platform: what the one hands over, what the other makes of it, and every way it is refused."""

import asyncio
import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
import pytest
from gate.capability import capability
from gate.claim import Claim
from gate.claim import RefusedError as GateRefusedError
from gate.rules import PLUGIN_VERSION, Policy, judge
from gate.view import View

from components import cluster, derive
from components.model import Manifest
from policy.law import judge as violations
from stacks import ownership
from stacks.handover import completed
from stacks.keys import Keys
from stacks.load import parse
from stacks.outputs import handed_over as outputs_of
from stacks.problems import Problem, RefusedError
from stacks.resolve import Stack
from tests.services.api import selects
from tests.stack_files import ENCRYPTED, SECRET, STACKS, handed_over, raw, served_by

NAME = "organization/gpu-runtime/prod"
LAB, PROD = raw(STACKS / "Pulumi.lab.yaml"), raw(STACKS / "Pulumi.prod.yaml")
PREVIOUS = SECRET[::-1]


def prod(**changes: Any) -> Stack:
    """Give the stack that has the platform."""
    return Stack(parse({**PROD, **changes}, {*ENCRYPTED, "gpu-runtime:previousSecret"}), "prod")


def lab(**changes: Any) -> Stack:
    """Give the stack of tenants alone."""
    said = {key: value for key, value in {**LAB, **changes}.items() if value is not None}
    return Stack(parse(said, {*ENCRYPTED, "gpu-runtime:previousSecret", "gpu-runtime:serverToken"}), "lab")


def plain(make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Open the outputs among the values that *make* gives; it is called where they are awaited."""

    async def opened() -> dict[str, Any]:
        return {k: await v.future() if isinstance(v, pulumi.Output) else v for k, v in make().items()}

    return asyncio.run(opened())


def tunnel_files(stack: Stack, alias: str) -> dict[str, str]:
    """Give the files of a unit's tunnel client."""
    keys, unit = Keys(stack), stack.units[alias]
    return plain(lambda: keys.unit(unit, keys.host_key(unit)).tunnel)


def login(files: dict[str, str]) -> dict[str, object]:
    """Ask as frps asks when a unit with these *files* logs in."""
    who = json.loads(files["tunnel.json"])
    metas = {key: who[key] for key in ("owner", "namespace", "unit", "host")}
    return {
        "version": PLUGIN_VERSION,
        "op": "Login",
        "content": {"metas": {**metas, "capability": files["capability"].strip()}},
    }


def gate_of(stack: Stack) -> Policy:
    """Give what the gate of *stack* goes by: the keys of its Secret, the owners of its command line."""
    assert stack.tunnel is not None
    keys = plain(lambda: Keys(stack).tunnel().gate)["key"].split()
    (gate,) = [m for m in stack.manifests() if (m["kind"], m["metadata"]["name"]) == ("Deployment", "gate")]
    arguments = gate["spec"]["template"]["spec"]["containers"][0]["args"]
    owners = [said.removeprefix("--owner=") for said in arguments if said.startswith("--owner=")]
    return Policy(tuple(map(bytes.fromhex, keys)), frozenset(owners), cluster_of(prod(), lab()))


def cluster_of(*stacks: Stack) -> View:
    """Give what a gate sees of a cluster on which *stacks* are up."""
    view, made = View(), [manifest for stack in stacks for manifest in stack.manifests()]
    for table, kind in ((view.namespaces, "Namespace"), (view.services, "Service")):
        table.replace(m for m in made if m["kind"] == kind and selects(table.kind.selector, m["metadata"]))
    return view


def test_the_platforms_gate_admits_a_unit_of_the_other_stack() -> None:
    """What the one hands over is what the other's units log in with."""
    outputs = plain(lambda: outputs_of(prod(), Keys(prod())))
    said = {k: v for k, v in LAB.items() if k != "platformKeys"} | {"platformStack": NAME}
    stack = Stack(parse(completed(said, "lab", lambda _: outputs), ENCRYPTED), "lab")
    files = tunnel_files(stack, "notebook.vision")

    assert judge(login(files), gate_of(prod())).claim.owner == "lab"
    assert files["token"] == tunnel_files(prod(), "notebook.lab-a")["token"]
    assert files["ca.crt"] == tunnel_files(prod(), "notebook.lab-a")["ca.crt"]
    assert (
        json.loads(files["tunnel.json"])["servers"]
        == json.loads(tunnel_files(prod(), "notebook.lab-a")["tunnel.json"])["servers"]
    )


def test_its_key_signs_nothing_of_the_platforms_stack() -> None:
    """A capability under the key of one stack for a unit of another is refused, whomever the client says it is."""
    key = bytes.fromhex(LAB["platformKeys"]["key"])
    files = tunnel_files(prod(), "notebook.lab-a")
    who = json.loads(files["tunnel.json"])
    claim = Claim("prod", who["namespace"], who["unit"], who["host"])
    forged = {**files, "capability": capability(key, claim)}

    judge(login(files), gate_of(prod()))
    with pytest.raises(GateRefusedError, match="the capability is not that of unit"):
        judge(login(forged), gate_of(prod()))


def test_who_is_no_longer_admitted_is_refused() -> None:
    """Taking a stack off the list ends its units' logins, announcements and sessions, with the keys it still has."""
    files = tunnel_files(lab(), "notebook.vision")
    closed = gate_of(prod(platform={**PROD["platform"], "admits": []}))
    content = {"user": {"metas": login(files)["content"]["metas"]}}  # type: ignore[index]

    later = [{**login(files), "op": op, "content": content} for op in ("NewProxy", "NewUserConn")]

    for request in (login(files), *later):
        with pytest.raises(GateRefusedError, match="stack 'lab' is not admitted"):
            judge(request, closed)


def test_a_platforms_new_secret_leaves_what_it_handed_over_good() -> None:
    """While previousSecret is there the gate takes capabilities under both; without it only under the new one."""
    files = tunnel_files(lab(), "notebook.vision")
    fresh = {"secret": PREVIOUS}

    assert judge(login(files), gate_of(prod(**fresh, previousSecret=SECRET))).claim.unit == "notebook"
    with pytest.raises(GateRefusedError, match="capability"):
        judge(login(files), gate_of(prod(**fresh)))


def test_an_epoch_is_a_cut() -> None:
    """Another epoch ends what was handed over at once, previousSecret or not."""
    files = tunnel_files(lab(), "notebook.vision")

    with pytest.raises(GateRefusedError, match="capability"):
        judge(login(files), gate_of(prod(epoch=2, previousSecret=SECRET)))


def test_each_stack_is_handed_its_own_key_and_only_that_is_secret() -> None:
    """One output for each admitted stack, none with the key of the gate; the public one holds no secret at all."""
    stack = prod(platform={**PROD["platform"], "admits": ["lab", "other"]})
    opened, gate = plain(lambda: outputs_of(stack, Keys(stack))), derive.gate_key(SECRET, 1)

    assert set(opened) == {"platform", "admitted-lab", "admitted-other"}
    assert opened["admitted-lab"] == LAB["platformKeys"]
    assert opened["admitted-lab"]["key"] != opened["admitted-other"]["key"]
    assert gate not in str(opened)
    assert not any(
        secret in str(opened["platform"]) for secret in (opened["admitted-lab"]["key"], opened["admitted-lab"]["token"])
    )
    assert "annotations" not in opened["platform"]["ssh"]["service"]


def test_a_stack_of_tenants_alone_makes_no_platform() -> None:
    """It makes its tenants, their passwords and its probe, closes them as law wants, and hands over nothing."""
    stack = lab()
    manifests = stack.manifests()

    assert set(stack.namespaces) == {"gpu-runtime-probe-lab", "lab-vision"}
    assert {one["metadata"].get("namespace") for one in manifests} == {None, "gpu-runtime-access", *stack.namespaces}
    assert [violation.text for violation in violations(manifests)] == []
    assert outputs_of(stack, Keys(stack)) == {}


def test_its_units_reach_the_platforms_tunnel_servers_by_selector() -> None:
    """The walls of its units name the pods of the platform, as those of the platform's own stack do."""

    def out(stack: Stack) -> Manifest:
        policies = [one for one in stack.manifests() if one["kind"] == "NetworkPolicy"]
        return next(one for one in policies if one["metadata"]["name"] == "unit-notebook-out")

    assert out(lab())["spec"]["egress"] == out(prod())["spec"]["egress"]


def test_its_probe_tries_the_platform() -> None:
    """Gate, tunnel servers and entrance must be closed to its tenants, too."""

    def tier(stack: Stack) -> list[Manifest]:
        return [one for one in stack.probe.targets if "gpu-runtime" in one["host"]]

    assert len(tier(prod())) == 3
    assert tier(lab()) == tier(prod())


def test_hosts_never_meet() -> None:
    """The namespace is part of a host, and one namespace is one stack's."""
    units = [*prod().units.values(), *lab().units.values()]

    assert len({unit.host for unit in units}) == len(units)


def refused(said: dict[str, Any]) -> list[Problem]:
    """Give the problems that *said* is refused for."""
    with pytest.raises(RefusedError) as error:
        parse(said, {*ENCRYPTED, "gpu-runtime:previousSecret", "gpu-runtime:serverToken"})
    return error.value.problems


def without(said: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Leave *keys* out of a copy."""
    return {key: value for key, value in copy.deepcopy(said).items() if key not in keys}


def elsewhere(*, gate: bool = True, **more: Any) -> dict[str, Any]:
    """Give what a stack says whose tunnel server is elsewhere, and asks a gate of ours."""
    ssh = served_by({**SERVER, "gate": gate}, PROD["platform"]["ssh"])
    said = {"platform": {"ssh": ssh}, "platformKeys": LAB["platformKeys"], **more}
    return {key: value for key, value in said.items() if value is not None}


SERVER = {"address": "198.18.9.9", "name": "frps.example.com", "ca": handed_over()["platformStack"]["ca"]}


@pytest.mark.parametrize(
    ("said", "path", "advice"),
    [
        (without(LAB, "platformStack", "platformKeys"), "platform", "says gpu-runtime:platformStack: <organization>"),
        ({**LAB, "platform": without(PROD["platform"], "admits")}, "platformStack", "beside gpu-runtime:platform"),
        ({**LAB, "previousSecret": SECRET}, "previousSecret", "has no use beside platformStack"),
        (without(LAB, "platformKeys"), "platformKeys", "pulumi stack output 'admitted-<this stack>' --show-secrets"),
        ({**PROD, "platformKeys": LAB["platformKeys"]}, "platformKeys", "neither gpu-runtime:platformStack nor"),
        ({**PROD, **elsewhere(gate=False)}, "platformKeys", "nor a platform.ssh.server with `gate: true`"),
        ({**PROD, **elsewhere(platformKeys=None)}, "platformKeys", "the gate at 198.18.9.9 admits units by it"),
        ({**PROD, **elsewhere(serverToken="x" * 40)}, "serverToken", "its token is in gpu-runtime:platformKeys"),
        (
            {**PROD, **elsewhere(platformKeys={**LAB["platformKeys"], "token": "short"})},
            "platformKeys.token",
            "16 to 512 printable",
        ),
        ({**LAB, "platformKeys": {"key": "00", "token": "t"}}, "platformKeys.key", "64"),
        ({**LAB, "platformStack": {**LAB["platformStack"], "more": 1}}, "platformStack.more", "no key of this release"),
        ({**LAB, "serverToken": "x" * 40}, "serverToken", "for a tunnel server elsewhere"),
        (
            {**PROD, "platform": {**PROD["platform"], "admits": ["Lab!"]}},
            "platform.admits.0",
            "must be lower-case letters",
        ),
        ({**PROD, "platform": {**PROD["platform"], "admits": ["lab", "lab"]}}, "platform.admits", "named 2 times"),
        (
            {**PROD, "platform": {"ssh": served_by(SERVER, PROD["platform"]["ssh"]), "admits": ["lab"]}},
            "platform.admits",
            "say the same `server` in each",
        ),
    ],
)
def test_a_mistake_is_refused_with_path_and_advice(said: dict[str, Any], path: str, advice: str) -> None:
    """Whoever has the platform is said once, and a stack without one says whose it uses."""
    found = {problem.path: problem.message for problem in refused(said)}

    assert advice in found[path]


@pytest.mark.parametrize(
    ("outputs", "advice"),
    [
        ({}, "has no output 'platform', so that nobody knows its tier; run `up` there with gpu-runtime:platform"),
        ({"platform": {}, "admitted-other": {"key": "k"}}, "add 'lab' to gpu-runtime:platform.admits of that stack"),
    ],
)
def test_a_platform_that_says_nothing_to_us_is_refused(outputs: dict[str, Any], advice: str) -> None:
    """Nothing that is unknown is taken for empty: the refusal names what the platform's stack must say."""
    with pytest.raises(RefusedError) as error:
        completed({"platformStack": NAME}, "lab", lambda _: outputs)

    assert advice in str(error.value)
    assert f"gpu-runtime:platformStack: '{NAME}'" in str(error.value)


def test_keys_of_the_stack_file_come_first_and_take_the_place_of_those_that_stay_closed() -> None:
    """An operator without the platform's passphrase gets the public part from its state, and brings the keys along."""
    outputs = {"platform": {"owner": "prod"}, "admitted-lab": {}}
    own = {"key": "own", "token": "own"}

    assert "platformKeys" not in completed({"platformStack": NAME}, "lab", lambda _: outputs)
    for given in ({}, {"key": "theirs"}):
        read = {NAME: {**outputs, "admitted-lab": given}}.__getitem__
        assert completed({"platformStack": NAME, "platformKeys": own}, "lab", read)["platformKeys"] == own


@pytest.mark.parametrize(("there", "words"), [(None, "is none"), ("dev", "is that of stack 'dev'")])
def test_a_platform_in_another_cluster_is_refused(
    monkeypatch: pytest.MonkeyPatch, there: str | None, words: str
) -> None:
    """Tunnel servers are found by names of this cluster: without that very platform no unit would ever be reached."""
    monkeypatch.setattr(cluster, "platform_of", lambda _: there)
    (problem,) = ownership._absent_platform(lab(), None)  # type: ignore[arg-type]

    assert words in str(problem)
    assert problem.path == "platformStack"
    assert list(ownership._absent_platform(prod(), None)) == []  # type: ignore[arg-type]


def test_a_second_platform_is_refused_with_the_way_to_use_the_first() -> None:
    """A cluster has one platform; the refusal says so, and not to rename a tenant."""
    why = "belongs to stack 'prod'; a cluster has one platform: use that stack's with gpu-runtime:platformStack"
    (problem,) = ownership.foreign_problems(prod(), [("namespace gpu-runtime", why)])

    assert problem.path == "platform"
