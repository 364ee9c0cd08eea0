"""The whole program under mocks: what each stack file registers, and that the law holds for all of it."""

import asyncio
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import config, mocks
from pulumi.runtime.settings import reset_options
from typing_extensions import override

from components import cluster, derive, kube, names
from policy.law import judge
from stacks import handover
from stacks.load import parse
from stacks.problems import RefusedError
from stacks.resolve import Stack
from tests.conftest import Golden
from tests.stack_files import ENCRYPTED, FILES, SECRET, handed_over, raw, stack_name

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "__main__.py"
ADDRESS = "10.132.0.9"
"""Of every Service, as the cluster gives one to each."""
PLATFORM = "organization/gpu-runtime/prod"


class Recorder(pulumi.runtime.Mocks):
    """Remember what is registered; every resource is made as asked."""

    def __init__(self) -> None:
        self.made: list[pulumi.runtime.MockResourceArgs] = []

    @override
    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made.append(args)
        if args.typ == "kubernetes:core/v1:Service":
            return f"{args.name}-id", {**args.inputs, "spec": {**args.inputs["spec"], "clusterIP": ADDRESS}}
        return f"{args.name}-id", args.inputs

    @override
    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        assert (args.token, args.args) == (handover.READ, {"name": PLATFORM})
        handed = handed_over()
        return {"outputs": {"platform": handed["platformStack"], "admitted-lab": handed["platformKeys"]}}, []


def program() -> None:
    """Run `__main__.py` as the engine's language host does."""
    runpy.run_path(str(PROGRAM))


def run(file: Path, changes: dict[str, Any] | None = None) -> Recorder:
    """Run the program for a stack file; give what it registered."""
    recorder = Recorder()
    values = {**raw(file), **(changes or {})}
    if values.pop("platformKeys", None):  # the program asks for both itself
        values["platformStack"] = PLATFORM
    texts = {f"gpu-runtime:{k}": v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    config.set_all_config(texts, ["gpu-runtime:secret"])

    async def body() -> None:
        mocks.set_mocks(recorder, project="gpu-runtime", stack=stack_name(file), preview=False)
        await pulumi.runtime.stack.run_pulumi_func(program)

    asyncio.run(body())
    return recorder


def hook_made(_hook: object) -> "asyncio.Future[None]":
    """Stand for the engine, which mocks lack: hooks are tested with the real one."""
    done: asyncio.Future[None] = asyncio.get_event_loop().create_future()
    done.set_result(None)
    return done


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loops: list[asyncio.AbstractEventLoop] = []

    def thread_loop() -> asyncio.AbstractEventLoop:
        """Give each thread its event loop, as Pulumi does itself, but remember to close it."""
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            loops.append(asyncio.new_event_loop())
            asyncio.set_event_loop(loops[-1])
            return loops[-1]

    monkeypatch.setenv(cluster.OFFLINE, "1")
    monkeypatch.setattr("pulumi.resource_hooks.register_resource_hook", hook_made)
    for module in ("mocks", "sync_await"):
        monkeypatch.setattr(f"pulumi.runtime.{module}._ensure_event_loop", thread_loop)
    yield
    reset_options()
    for loop in loops:
        loop.close()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_stack_file_registers_what_the_law_saw(file: Path) -> None:
    """What is registered is, name by name, what was judged: nothing reaches the cluster past the law."""
    stack = Stack(parse(raw(file), ENCRYPTED), stack_name(file))
    judged = sorted((m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in stack.manifests())
    made = [args for args in run(file).made if args.typ.startswith("kubernetes:")]
    registered = sorted(
        (args.typ.rpartition(":")[2], args.inputs["metadata"].get("namespace"), args.inputs["metadata"]["name"])
        for args in made
    )

    assert registered == judged


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_stack_file_obeys_the_law(file: Path) -> None:
    """A stack file that passes here passes the policy pack at deploy time."""
    stack = Stack(parse(raw(file), ENCRYPTED), stack_name(file))

    assert [violation.text for violation in judge(stack.manifests())] == []


def test_a_claim_is_registered_as_what_the_law_saw() -> None:
    """The SDK has no class for this kind yet: it is registered by its own words, whole."""
    file = next(file for file in FILES if file.stem == "Pulumi.prod")
    flavors = {**raw(file)["flavors"], "h100": {"cpu": "16", "memory": "128Gi", "claim": {"deviceClass": "gpu"}}}
    made = {args.name: args for args in run(file, {"flavors": flavors}).made}
    claim = made["notebook.lab-a-claim"]

    assert claim.typ == "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
    assert claim.inputs["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"


def test_names_of_resources_stay(golden: Golden) -> None:
    """A resource's name is part of its identity: another name replaces the object, the end of a pod or a volume."""
    made = run(next(file for file in FILES if file.stem == "Pulumi.prod")).made

    golden("program/resources.yaml", sorted(f"{args.typ} {args.name}" for args in made))


def test_a_storage_is_away_while_it_is_filled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine makes the Job anew with its claim, and takes the browser away before it makes a Job anew."""
    made: dict[str, tuple[pulumi.CustomResource, pulumi.ResourceOptions]] = {}
    register = kube._register_one

    def remember(name: str, manifest: Any, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
        made[name] = register(name, manifest, options), options
        return made[name][0]

    monkeypatch.setattr(kube, "_register_one", remember)
    run(next(file for file in FILES if file.stem == "Pulumi.prod"))
    (job, filling), (_, showing) = made["imagenet.lab-a-prepare"], made["imagenet.lab-a-browser"]

    assert filling.delete_before_replace
    assert isinstance(filling.replacement_trigger, pulumi.Output)
    assert showing.delete_before_replace
    assert showing.replace_with == [job]


def test_a_refused_stack_registers_nothing() -> None:
    """A mistake in the stack file ends the program before the first resource."""
    file = FILES[0]
    with pytest.raises(RefusedError):
        run(file, {"egress": {"blockedCidrs": ["10.0.0.1/8"]}})


def test_a_broken_law_registers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that breaks the law ends the program before the first resource, without any policy pack."""
    monkeypatch.setattr("components.unit_pod.POD_DEFAULTS", {"enableServiceLinks": False})
    recorder = Recorder()
    monkeypatch.setattr("tests.program.test_program.Recorder", lambda: recorder)

    with pytest.raises(pulumi.RunError, match="service-account-token"):
        run(FILES[0])
    assert [args.name for args in recorder.made if args.typ.startswith("kubernetes:")] == []


def test_no_secret_reaches_an_object_that_is_not_a_secret() -> None:
    """Nothing derived from the stack secret is in a ConfigMap, an environment, an argument or an annotation."""
    recorder = run(next(file for file in FILES if file.stem == "Pulumi.prod"))
    texts = [str(args.inputs) for args in recorder.made if args.typ != "kubernetes:core/v1:Secret"]
    gate = derive.gate_key(SECRET, 1)

    for secret in (SECRET, gate, derive.frp_token(SECRET, 1), derive.stack_key(gate, "prod").hex(), "PRIVATE KEY"):
        assert not any(secret in text for text in texts)


def test_tunnel_servers_need_no_name_server() -> None:
    """What they reach has its address in their pods: the gate under the name that frps.toml says, peers' companions."""
    made = {args.name: args.inputs for args in run(next(file for file in FILES if file.stem == "Pulumi.prod")).made}
    said = made["tunnel-frps-config"]["data"]
    (alias,) = made["tunnel-frps-0"]["spec"]["template"]["spec"]["hostAliases"]

    assert alias["ip"] == ADDRESS
    assert [f"https://{name}:{names.GATE_PORT}" for name in alias["hostnames"]] == [
        line.split('"')[1] for line in said["frps.toml"].splitlines() if line.startswith("addr = ")
    ]
    assert {peer["host"] for peer in json.loads(said["servers.json"])} == {ADDRESS}


def test_a_units_pod_comes_after_all_that_it_needs() -> None:
    """The tenant's walls, filled storages, then Secrets, keys, walls and Service: no kubelet or gate waits for them."""
    made = [args.name for args in run(next(file for file in FILES if file.stem == "Pulumi.prod")).made]
    trainer = [name.removeprefix("trainer.lab-a-") for name in made if name.startswith("trainer.lab-a-")]

    order = [made.index(f"lab-a-{first}") for first in ("namespace", "default-deny")]
    order += [made.index("imagenet.lab-a-prepare"), made.index("trainer.lab-a-deployment")]

    assert order == sorted(order)
    assert trainer[-1] == "deployment"
    assert {"host-key", "keys", "tunnel", "service"} <= set(trainer)


def test_the_program_knows_its_own_name() -> None:
    """A stack that admits itself is refused before anything is registered."""
    file = next(file for file in FILES if stack_name(file) == "prod")
    platform = {**raw(file)["platform"], "admits": ["prod"]}

    with pytest.raises(RefusedError, match="'prod' is this stack"):
        run(file, {"platform": platform})
