"""The pack as the engine runs it: a process of its own, spoken to over the engine's protocol."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2, json_format  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2 as messages
from pulumi.runtime.proto import analyzer_pb2_grpc as service
from pulumi_policy.proxy import UNKNOWN_BOOLEAN_VALUE, UNKNOWN_OBJECT_VALUE, UNKNOWN_STRING_VALUE

from policy.checks import ALL
from tests.policy.cases import CHECKS, Case, cases, name, pod, walls

PACK = CHECKS.parent
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "hunter2-hunter2"}
"""A secret as the engine writes it on the wire."""


class Engine:
    """Asks a running pack what the engine asks."""

    def __init__(self, port: int) -> None:
        self.pack: Any = service.AnalyzerStub(grpc.insecure_channel(f"127.0.0.1:{port}"))

    def configure(self, levels: dict[str, str], *, advice: bool = False) -> None:
        """Give the pack the levels of a configuration file, and the advisory policies their voice."""
        law = messages.PolicyConfig(enforcementLevel=messages.MANDATORY)
        law.properties.update({"levels": levels})
        voice = messages.PolicyConfig(enforcementLevel=messages.ADVISORY if advice else messages.DISABLED)
        config = {"law": law, "law-advisory": voice, "law-of-stack-advisory": voice}
        self.pack.Configure(messages.ConfigureAnalyzerRequest(policyConfig=config))

    def resource(self, manifest: Any, token: str = "") -> list[tuple[str, str, str]]:
        """Ask the resource policies about one object."""
        request = messages.AnalyzeRequest(type=token or token_of(manifest), urn="urn:one", name="one")
        json_format.ParseDict(manifest, request.properties)
        return _said(self.pack.Analyze(request))

    def stack(self, manifests: list[Any]) -> list[tuple[str, str, str]]:
        """Ask the stack policies about all objects."""
        request = messages.AnalyzeStackRequest()
        for index, manifest in enumerate(manifests):
            resource = request.resources.add(type=token_of(manifest), urn=f"urn:{index}", name=str(index))
            json_format.ParseDict(manifest, resource.properties)
        return _said(self.pack.AnalyzeStack(request))


@pytest.fixture(scope="module")
def pack() -> Iterator[Engine]:
    """Start the pack with the working directory that the engine gives it."""
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."]
    with subprocess.Popen(command, cwd=PACK, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield Engine(int(process.stdout.readline()))
        process.terminate()


@pytest.fixture
def engine(pack: Engine) -> Engine:
    """Return the running pack with every check mandatory."""
    pack.configure({})
    return pack


def token_of(manifest: Any) -> str:
    """Return the type token of the Kubernetes provider."""
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"


def _said(response: Any) -> list[tuple[str, str, str]]:
    levels = {messages.MANDATORY: "mandatory", messages.ADVISORY: "advisory"}
    return [(item.policyName, levels[item.enforcementLevel], item.message) for item in response.diagnostics]


@pytest.mark.parametrize("case", cases("fail"), ids=name)
def test_fixture_is_refused(engine: Engine, case: Case) -> None:
    """What the check refuses on a file, the engine refuses, as mandatory, with the same words."""
    found = [line for document in case.documents for line in engine.resource(document)] + engine.stack(case.documents)

    ((policy, level, text),) = found
    ((check, message),) = case.expected
    assert policy in ("law", "law-of-stack")
    assert level == "mandatory"
    assert f"{message} [{check}, at " in text


@pytest.mark.parametrize("case", cases("pass"), ids=name)
def test_fixture_passes(engine: Engine, case: Case) -> None:
    """Numbers that come as floats and lists that come as proxies are no reason to refuse."""
    found = [line for document in case.documents for line in engine.resource(document)] + engine.stack(case.documents)

    assert found == []


@pytest.mark.parametrize(
    ("spec", "check"),
    [
        ({"hostNetwork": UNKNOWN_BOOLEAN_VALUE}, "host-namespaces"),
        ({"volumes": [{"name": "a", "hostPath": UNKNOWN_OBJECT_VALUE}]}, "host-paths"),
        ({"securityContext": UNKNOWN_OBJECT_VALUE}, "non-root"),
        ({"containers": UNKNOWN_OBJECT_VALUE}, "dropped-capabilities"),
    ],
)
def test_unknown_is_mandatory(engine: Engine, spec: Any, check: str) -> None:
    """The SDK would make advice of an unknown value; here it is a violation like any other."""
    found = engine.resource(pod(**spec))

    assert any(f"[{check}, at " in text for _, _, text in found)
    assert {level for _, level, _ in found} == {"mandatory"}


def test_unknown_does_not_hide_what_follows(engine: Engine) -> None:
    """An image that is not known yet does not end the judgement of the next container."""
    first, second = pod()["spec"]["containers"][0], pod()["spec"]["containers"][0]
    first["image"] = UNKNOWN_STRING_VALUE
    second |= {"name": "second", "securityContext": {}}

    found = engine.resource(pod(containers=[first, second]))

    assert len(found) == 2
    assert all('container "second"' in text for _, _, text in found)


def test_stack_in_preview(engine: Engine) -> None:
    """Walls are decided before anything exists: from the policies of the same preview, whatever else is unknown."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": UNKNOWN_OBJECT_VALUE}
    late = pod()
    late["status"] = late["metadata"]["uid"] = UNKNOWN_OBJECT_VALUE

    assert engine.stack([config, late, walls()]) == []
    assert [policy for policy, _, _ in engine.stack([config, late])] == ["law-of-stack"] * 2


def test_levels(engine: Engine) -> None:
    """The configuration moves a check to advice or out, and leaves the others as they are."""
    bad = pod(hostNetwork=True, enableServiceLinks=True, hostPID=True)
    levels = {"service-links": "advisory", "egress-walls": "advisory", "ingress-walls": "disabled"}
    engine.configure(levels, advice=True)

    assert sorted((policy, level) for policy, level, _ in engine.resource(bad)) == [
        ("law", "mandatory"),
        ("law", "mandatory"),
        ("law-advisory", "advisory"),
    ]
    assert [(policy, level) for policy, level, _ in engine.stack([bad])] == [("law-of-stack-advisory", "advisory")]


def test_advice_without_a_voice_is_mandatory(engine: Engine) -> None:
    """Who moves a check to advice and leaves the advisory policies off has not switched the check off."""
    engine.configure({"service-links": "advisory", "egress-walls": "advisory"})

    assert [level for _, level, _ in engine.resource(pod(enableServiceLinks=True))] == ["mandatory"]
    assert [level for _, level, _ in engine.stack([pod()])] == ["mandatory"] * 2


def test_unknown_level_fails_the_run(engine: Engine) -> None:
    """A configuration that names no check of ours must not switch anything off."""
    engine.configure({"no-such-check": "disabled"})

    with pytest.raises(grpc.RpcError, match="no check is called no-such-check"):
        engine.resource(pod())


@pytest.mark.parametrize(
    ("token", "kind", "refused"),
    [
        ("kubernetes:core/v1:Pod", None, False),
        ("kubernetes:apps/v1:DeploymentPatch", "Deployment", True),
        ("kubernetes:core/v1:ConfigMap", "Pod", True),
        ("kubernetes:helm.sh/v3:Release", None, True),
        ("kubernetes:yaml/v2:ConfigGroup", None, False),
        ("kubernetes:helm.sh/v4:Chart", None, False),
        ("pulumi:providers:kubernetes", None, False),
        ("gpu-runtime:index:GPUUnit", None, False),
        ("other:index:Thing", "PodList", True),
    ],
)
def test_tokens(engine: Engine, token: str, kind: str | None, *, refused: bool) -> None:
    """An object is judged by what it says it is; a token that says otherwise, or hides it, is refused."""
    manifest = {key: value for key, value in pod(hostPID=True).items() if key != "apiVersion"}
    manifest["spec"] = pod()["spec"]
    manifest |= {"kind": kind, "apiVersion": "v1"} if kind else {}
    if kind is None:
        del manifest["kind"]
    if kind == "PodList":
        manifest["items"] = [pod(hostPID=True)]

    assert bool(engine.resource(manifest, token)) is refused


def test_secret_values_stay_out_of_messages(engine: Engine) -> None:
    """Inside a policy secrets are plain text; no message may carry one."""
    container = pod()["spec"]["containers"][0] | {"env": [{"name": "A", "value": SECRET, "valeu": SECRET}]}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"a": SECRET},
        "tpye": SECRET,
    }

    found = engine.resource(pod(containers=[container])) + engine.resource(secret)

    assert len(found) == 2
    assert "hunter2" not in json.dumps(found)


def test_pack_introduces_itself(engine: Engine) -> None:
    """Name, policies, and a schema by which the engine refuses a misspelt check before it runs."""
    info = engine.pack.GetAnalyzerInfo(empty_pb2.Empty())
    (law,) = [policy for policy in info.policies if policy.name == "law"]

    assert info.name == "gpu-runtime"
    assert len(info.policies) == 4
    assert set(json_format.MessageToDict(law.configSchema.properties["levels"])["properties"]) == {
        check.ID for check in ALL
    }


def test_pack_names_its_environment() -> None:
    """The engine gives a pack no default environment: without this line it would run on any Python."""
    assert "virtualenv: ../.venv" in (Path(PACK) / "PulumiPolicy.yaml").read_text()
