"""Who may look at what a tenant has, under which hosts, and every way in which that is refused."""

import asyncio
import base64
import copy
import hashlib
import json
import re
from typing import Any

import pulumi
import pytest
from pydantic import SecretStr

from components import derive, names
from components.access import MOST_USERS, AccessSecrets, access_manifests, htpasswd
from components.gpu_unit import unit_template
from policy.law import judge
from stacks.keys import Keys
from stacks.load import parse
from stacks.outputs import outputs
from stacks.problems import RefusedError
from stacks.resolve import Stack
from stacks.web_checks import MOST_PORTS
from tests.stack_files import ENCRYPTED, KEY, SECRET, STACKS, image, raw
from tools import password as tool
from tools.shell import ToolError

PROD = raw(STACKS / "Pulumi.prod.yaml")
BROWSER = {"host": "files.example.com"}
UNIT: dict[str, Any] = {"flavor": "cpu", "image": "python", "ports": [{"name": "lab", "port": 8888, "expose": "web"}]}
UNIT |= {"mounts": [{"storage": "dataset", "path": "/data"}], "home": {"storage": "home"}}
UNIT |= {"ssh": {"username": "alice", "authorizedKeys": [KEY]}}
STORAGES = {"dataset": {"size": "200Gi", "browser": True}, "home": {"size": "1Gi"}}


def said(**changes: Any) -> dict[str, Any]:
    """Give a stack file with one tenant who shows a storage and a port; dots in *changes* lead to where they are."""
    found = copy.deepcopy(PROD)
    found["images"] |= {name: image(name) for name in ("dufs", "proxy", "routes", "python")}
    found["flavors"] = {"cpu": {"cpu": "1", "memory": "1Gi"}}
    found["platform"]["browser"] = copy.deepcopy(BROWSER)
    found["tenants"] = {"lab-a": {"storages": copy.deepcopy(STORAGES), "units": {"trainer": copy.deepcopy(UNIT)}}}
    found.pop("stock", None)
    found |= {"namespacePrefix": "", "epoch": 0}
    for path, value in changes.items():
        *folders, last = path.split("/")
        here = found
        for folder in folders:
            here = here[folder]
        if value is None:
            del here[last]
        else:
            here[last] = value
    return found


def stack(changes: dict[str, Any] | None = None) -> Stack:
    """Give that stack."""
    return Stack(parse(said(**(changes or {})), {*ENCRYPTED, "gpu-runtime:previousSecret"}), "prod")


def refusals(changes: dict[str, Any]) -> list[str]:
    """Say why it is refused."""
    try:
        stack(changes)
    except RefusedError as refused:
        return [str(problem) for problem in refused.problems]
    return []


def lines(of: Stack, tenant: str = "lab-a") -> str:
    """Give the lines that the proxy compares with."""

    async def opened() -> str:
        return str(await pulumi.Output.from_input(Keys(of).passwords(of.access[tenant]).htpasswd).future())

    return asyncio.run(opened())


def password(of: Stack, user: str = "lab-a", tenant: str = "lab-a") -> str:
    """Give a user's password."""
    return Keys(of).password(of.access[tenant], user)


def test_a_tenant_has_one_user_unless_it_says_others() -> None:
    """The user is called like the tenant; `webUsers` names others; an empty list is nobody, and no Secret."""
    assert stack().access["lab-a"].users == ("lab-a",)
    assert stack({"tenants/lab-a/webUsers": ["alice", "bob@example.com"]}).access["lab-a"].users == (
        "alice",
        "bob@example.com",
    )
    assert stack({"tenants/lab-a/webUsers": []}).access == {}


def test_without_a_proxy_nobody_has_a_password() -> None:
    """There is no Secret, and no namespace for one."""
    alone = stack({"platform/browser": None, "tenants/lab-a/storages/dataset/browser": None, "tenants/lab-a/units": {}})
    assert alone.access == {}
    assert names.ACCESS_NAMESPACE not in str(alone.manifests())


def test_the_secret_holds_hashes_of_128_bits() -> None:
    """Each line is what Envoy takes; its password is 26 letters and digits, and in no object."""
    of = stack({"tenants/lab-a/webUsers": ["alice", "bob"]})
    alice, bob = password(of, "alice"), password(of, "bob")
    assert alice != bob
    assert all(re.fullmatch("[a-z2-7]{26}", one) for one in (alice, bob))
    digest = base64.b64encode(hashlib.sha1(alice.encode(), usedforsecurity=False).digest()).decode()
    assert lines(of).splitlines()[0] == f"alice:{{SHA}}{digest}"
    assert lines(of) == htpasswd([("alice", alice), ("bob", bob)])
    assert alice not in lines(of) + json.dumps(outputs(of, Keys(of)))


def test_passwords_are_of_their_namespace_user_secret_and_epochs() -> None:
    """Another of any of them is another password, and each is the same at every preview."""
    other = SECRET[::-1]
    changed = [
        stack({"epoch": 1}),
        stack({"secret": other}),
        stack({"tenants/lab-a/webEpoch": 1}),
        stack({"namespacePrefix": "x-"}),
    ]
    found = {password(of) for of in (stack(), *changed)} | {derive.web_password(SECRET, 0, "lab-a", "lab-b", 0)}
    assert len(found) == 6, found
    assert password(stack()) == password(stack())


def test_while_a_secret_is_rotated_the_new_password_counts() -> None:
    """`previousSecret` keeps no old password alive: Envoy knows one for each user."""
    rotated = stack({"secret": SECRET[::-1], "previousSecret": SECRET})
    assert password(rotated) == password(stack({"secret": SECRET[::-1]}))
    assert len(lines(rotated).splitlines()) == 1


def test_the_secret_is_the_tenants_in_the_namespace_of_passwords() -> None:
    """It wears the labels of the tenant's namespace, by which routes believes it; the law holds for the whole stack."""
    of = stack()
    (secret,) = access_manifests(of.access["lab-a"], AccessSecrets("alice")).values()
    meta = secret["metadata"]
    assert (meta["namespace"], meta["name"]) == ("gpu-runtime-access", "access-lab-a")
    assert (meta["labels"][names.OWNER_LABEL], meta["labels"][names.TENANT_LABEL]) == ("prod", "lab-a")
    assert judge(of.manifests()) == []


def test_the_unit_says_what_is_shown_and_where_its_storages_are() -> None:
    """On its Service, in words that routes reads; its pod's template does not know."""
    of = stack()
    service = next(m for m in of.manifests() if m["kind"] == "Service" and m["metadata"]["name"] == "unit-trainer")
    told = service["metadata"]["annotations"]
    assert told[names.WEB_ANNOTATION] == "lab"
    assert json.loads(told[names.MOUNTS_ANNOTATION]) == {"dataset": "/data", "home": "/home/alice"}
    hidden = stack({"tenants/lab-a/units/trainer/ports": [{"name": "lab", "port": 8888}]})
    assert unit_template(of.units["trainer.lab-a"]) == unit_template(hidden.units["trainer.lab-a"])


def test_the_proxy_alone_reaches_the_port() -> None:
    """The unit's wall lets the proxy's pods in at that port, and nobody else."""
    (policy,) = (m for m in stack().manifests() if m["metadata"]["name"] == "unit-trainer-in")
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8888}]
    (peer,) = rule["from"]
    assert peer["podSelector"] == {"matchLabels": {"app.kubernetes.io/component": "proxy"}}
    assert peer["namespaceSelector"] == names.namespace_selector("gpu-runtime")


def test_addresses_are_told() -> None:
    """Outputs say where the ports and the index are, with the port where clients find the proxy."""
    of = stack({"platform/browser": {**BROWSER, "port": 8443}})
    told = outputs(of, Keys(of))
    assert told["ports"] == {"lab.trainer.lab-a": "https://lab--trainer--lab-a.files.example.com:8443/"}
    assert told["pages"] == {"lab-a": "https://lab-a.files.example.com:8443/"}


PORT = "tenants/lab-a/units/trainer/ports"
LONG = "long-prefix-here-"

REFUSED = {
    "a user twice": ({"tenants/lab-a/webUsers": ["a", "a"]}, "webUsers: 'a' is named 2 times"),
    "a user in upper case": ({"tenants/lab-a/webUsers": ["Alice"]}, "must be 1 to 64 lower-case"),
    "a user with a colon": ({"tenants/lab-a/webUsers": ["a:b"]}, "must be 1 to 64 lower-case"),
    "more users than the proxy reads": (
        {"tenants/lab-a/webUsers": [f"user-{number}" for number in range(MOST_USERS + 1)]},
        f"webUsers: has {MOST_USERS + 1} entries; at most {MOST_USERS} are allowed",
    ),
    "more people at more hosts than the proxy has room for": (
        {
            "tenants/lab-a/webUsers": [f"{number:064}" for number in range(MOST_USERS)],
            "tenants/lab-a/storages": {
                **STORAGES,
                **{f"many-{number}": {"size": "1Gi", "browser": True} for number in range(1000)},
            },
        },
        "tenants.lab-a: 1004 hosts and their people take the proxy",
    ),
    "an epoch below zero": ({"tenants/lab-a/webEpoch": -1}, "webEpoch"),
    "no proxy": ({"platform/browser": None}, "ports.lab.expose: nobody would reach it: there is no proxy"),
    "a joint in the port's name": (
        {PORT: [{"name": "a--b", "port": 1024, "expose": "web"}]},
        "'a--b' has '--' in it, which joins the parts of a host",
    ),
    "more ports than the proxy reads": (
        {PORT: [{"name": f"p{n}", "port": 2000 + n, "expose": "web"} for n in range(MOST_PORTS + 1)]},
        f"units.trainer.ports: {MOST_PORTS + 1} are on the web; at most {MOST_PORTS} are",
    ),
    "another alphabet": ({PORT: [{"name": "xn", "port": 1024, "expose": "web"}]}, "would mark a host in another"),
    "a storage of another alphabet": (
        {"tenants/lab-a/storages": {**STORAGES, "xn": {"size": "1Gi", "browser": True}}},
        "storages.xn.browser: 'xn' before '--'",
    ),
    "a prefix with a joint": ({"namespacePrefix": "a--"}, "namespacePrefix: 'a--lab-a' has '--' in it"),
    "a label that is too long": (
        {
            "tenants/lab-a/storages": {**STORAGES, "d" * 40: {"size": "1Gi", "browser": True}},
            "namespacePrefix": "long-prefix-here-",
        },
        f"its host {'d' * 40}--{LONG}lab-a has 64 characters; 63 fit one label",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_host_of_its_own_is_refused(changes: dict[str, Any], reason: str) -> None:
    """Each with a sentence that says what would be right."""
    assert any(reason in problem for problem in refusals(changes)), refusals(changes)


def test_a_stack_of_tenants_alone_uses_the_platforms_host() -> None:
    """It has passwords of its own secret and the platform's host, and makes no namespace for them."""
    hub = stack({"platform/admits": ["lab"]})
    given = {"key": derive.stack_key(derive.gate_key(SECRET, 0), "lab").hex(), "token": "t"}
    raw_lab = {**said(), "secret": SECRET[::-1], "platformStack": Keys(hub).handed_over(), "platformKeys": given}
    del raw_lab["platform"]
    lab = Stack(parse(raw_lab, ENCRYPTED), "lab")
    assert outputs(lab, Keys(lab))["pages"] == {"lab-a": "https://lab-a.files.example.com/"}
    assert names.ACCESS_NAMESPACE not in lab.namespaces
    assert password(lab) == derive.web_password(SECRET[::-1], 0, "lab-a", "lab-a", 0)
    (secret,) = (m for m in lab.manifests() if m["metadata"].get("namespace") == names.ACCESS_NAMESPACE)
    assert secret["metadata"]["labels"][names.OWNER_LABEL] == "lab"


def test_the_tool_prints_the_password_of_the_secret() -> None:
    """It derives what the program derives, from the secret that the engine opens."""
    closed = Stack(stack().config.model_copy(update={"secret": SecretStr("placeholder")}), "prod")
    access, user = tool.chosen(closed, "lab-a", None)
    assert tool.password(closed, SECRET, access, user) == password(stack())


@pytest.mark.parametrize(
    ("tenant", "user", "reason"),
    [
        ("lab-b", None, "no tenant 'lab-b' has pages; there are lab-a"),
        ("lab-a", None, "has users alice, bob: say USER=<one of them>"),
        ("lab-a", "eve", "no user 'eve'; there are alice, bob"),
    ],
)
def test_the_tool_says_who_there_is(tenant: str, user: str | None, reason: str) -> None:
    """A tenant or user that is not there is named, and so are those who are."""
    with pytest.raises(ToolError, match=re.escape(reason)):
        tool.chosen(stack({"tenants/lab-a/webUsers": ["alice", "bob"]}), tenant, user)
