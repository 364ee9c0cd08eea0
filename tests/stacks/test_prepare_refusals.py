"""How a stack file may say that a storage is filled: each mistake is refused with its path and advice."""

import copy
from typing import Any

import pytest

from components.prepare_spec import MOST_FILES
from stacks.load import parse
from stacks.order import in_order
from stacks.resolve import Stack
from tests.stack_files import ENCRYPTED
from tests.stacks.test_refusals import PROD, at, refused

LAB = "tenants.lab-a"
STORAGES = f"{LAB}.storages"
PREPARE = f"{STORAGES}.copy.prepare"
SHA = "0" * 64


def http(*files: dict[str, Any]) -> dict[str, Any]:
    """Say a download; each of *files* needs to name only what it is tried with."""
    plain = {"url": "https://example.com/a", "sha256": SHA, "path": "a"}
    return {"kind": "http", "files": [{**plain, **file} for file in files]}


def of(source: str, **more: object) -> dict[str, Any]:
    """Say a storage that is a copy."""
    return {"size": "1Gi", "prepare": {"kind": "storage", "from": source, **more}}


@pytest.mark.parametrize(
    ("prepare", "where", "advice"),
    [
        ({"kind": "git"}, "", "has kind 'git'; 'image', 'storage', 'http' are known"),
        ({"from": "dataset"}, "", "lacks the key 'kind'"),
        ({"kind": "storage"}, "from", "is missing"),
        ({"kind": "storage", "form": "dataset"}, "form", "did you mean 'from'?"),
        ({"kind": "storage", "from": "dataset.lab-b"}, "from", "must be lower-case letters"),
        ({"kind": "storage", "from": "nothing"}, "from", "'nothing' is none of the tenant's storages: "),
        ({"kind": "storage", "from": "copy"}, "from", "copies go in a circle: copy from copy"),
        ({"kind": "storage", "from": "imagenet", "filled": True}, "filled", "has a `prepare`, which is waited for"),
        ({"kind": "storage", "from": "home"}, "from", "or say `filled: true` beside `from`"),
        ({"kind": "storage", "from": "dataset", "revision": -1}, "revision", "greater than or equal to 0"),
        ({"kind": "image", "image": "pytorch"}, "command", "is missing"),
        ({"kind": "image", "image": "nothing", "command": ["x"]}, "image", "'nothing' is no image of"),
        ({"kind": "image", "image": "pytorch", "comand": ["x"]}, "comand", "did you mean 'command'?"),
        ({"kind": "http", "files": []}, "files", "must have at least one entry"),
        (http(*({"path": f"f{n}"} for n in range(MOST_FILES + 1))), "files", f"at most {MOST_FILES} are allowed"),
        (http({"url": "ftp://example.com/a"}), "files.0.url", "must be an address such as https://"),
        (http({"url": "https:///a"}), "files.0.url", "must be an address such as https://"),
        (http({"url": "https://example.com:port/"}), "files.0.url", "must be an address such as https://"),
        (http({"url": "https://example.com/a b"}), "files.0.url", "neither a blank nor a fragment"),
        (http({"url": "https://example.com/a#b"}), "files.0.url", "neither a blank nor a fragment"),
        (http({"sha256": "A" * 64}), "files.0.sha256", "must be 64 lower-case hexadecimal digits"),
        (http({"path": "../a"}), "files.0.path", "and no .. in it"),
        (http({"path": "a/../../b"}), "files.0.path", "and no .. in it"),
        (http({"path": "a/.."}), "files.0.path", "and no .. in it"),
        (http({"path": "/a"}), "files.0.path", "must be a path within the volume"),
        (http({"path": "a//b"}), "files.0.path", "must be a path within the volume"),
        (http({"path": ".gpu-runtime/prepared"}), "files.0.path", "and not .gpu-runtime"),
        (http({"path": "a"}, {"path": "b"}, {"path": "a"}), "", "files has a twice"),
        (http({"path": "a"}, {"path": "a/b"}), "", "files has a as a file and as a folder"),
        ([], "", "must be a table of keys"),
    ],
)
def test_a_mistake_is_refused(prepare: dict[str, Any], where: str, advice: str) -> None:
    """The refusal names where the mistake is and what would be right."""
    said = refused(at(f"{STORAGES}.copy", {"size": "1Gi", "prepare": prepare}))

    assert f"gpu-runtime:{PREPARE}.{where}".removesuffix(".") + ":" in said
    assert advice in said


def test_a_password_in_an_address_is_not_repeated() -> None:
    """An address that holds a password is refused, and shown to nobody."""
    said = refused(
        at(f"{STORAGES}.copy", {"size": "1Gi", "prepare": http({"url": "https://bob:hunter2@example.com/a"})})
    )

    assert "must hold no user and no password" in said
    assert "hunter2" not in said


def test_copies_in_a_circle() -> None:
    """Three storages that wait for each other are told the whole way round."""

    def change(config: dict[str, Any]) -> None:
        config["tenants"]["lab-a"]["storages"] |= {"one": of("two"), "two": of("three"), "three": of("one")}

    said = refused(change)

    assert f"gpu-runtime:{STORAGES}.one.prepare.from: copies go in a circle: one from two from three from one" in said


def test_a_copy_has_its_sources_owner() -> None:
    """Nobody but the owner of a volume surely reads all that is in it."""
    said = refused(at(f"{STORAGES}.copy", {**of("imagenet"), "runAs": {"uid": 7, "gid": 7}}))

    assert f"gpu-runtime:{STORAGES}.copy.runAs: is 7:7, but the storage imagenet that it is copied from" in said


def test_another_tenants_storage_is_none() -> None:
    """A copy is made within one tenant: names of others mean nothing."""

    def change(config: dict[str, Any]) -> None:
        config["tenants"]["lab-b"] = {"storages": {"theirs": {"size": "1Gi"}}, "units": {}}
        config["tenants"]["lab-a"]["storages"]["copy"] = of("theirs", filled=True)

    assert f"gpu-runtime:{PREPARE}.from: 'theirs' is none of the tenant's storages" in refused(change)


def stack(running: bool) -> Stack:  # noqa: FBT001 - one of two cases
    """Give a stack whose unit uses a copy of a copy."""
    said = copy.deepcopy(PROD)
    lab = said["tenants"]["lab-a"]
    lab["storages"] = {"c": of("b"), "b": of("a", filled=True), "a": {"size": "1Gi"}}
    trainer = {key: lab["units"]["trainer"][key] for key in ("flavor", "image")}
    lab["units"] = {"user": {**trainer, "running": running, "mounts": [{"storage": "c", "path": "/c"}]}}
    said["tenants"] = {"lab-a": lab}
    lab.pop("quota", None)
    return Stack(parse(said, ENCRYPTED), "test")


def order(running: bool) -> list[str]:  # noqa: FBT001 - one of two cases
    """Name what is made, in order."""
    made = stack(running)
    return [alias for (_, alias), _, _ in in_order(made.units, made.storages)]


def test_what_is_needed_comes_first() -> None:
    """A source before its copy, and before a unit all that it mounts; a unit at rest before what is filled anew."""
    assert order(running=True) == ["a.lab-a", "b.lab-a", "c.lab-a", "user.lab-a"]
    resting = order(running=False)
    assert resting.index("user.lab-a") < resting.index("c.lab-a")


def test_who_uses_a_storage() -> None:
    """A storage knows which units are to run, whom a refusal names, and which are not, whose end is waited for."""
    used, rests = stack(running=True).storages["c.lab-a"], stack(running=False).storages["c.lab-a"]

    assert (used.running, used.resting) == (("user",), ())
    assert (rests.running, rests.resting) == ((), ("user",))


@pytest.mark.parametrize(
    ("source", "shown"),
    [("imagenet", False), ("home", False), ("files", True)],
    ids=["of many nodes", "not shown", "shown"],
)
def test_a_copy_knows_who_has_its_source(source: str, *, shown: bool) -> None:
    """A browser has a volume that one node at a time can mount, and no other."""
    config = copy.deepcopy(PROD)
    storages = config["tenants"]["lab-a"]["storages"]
    storages["files"] = {"size": "1Gi", "browser": True}
    storages["copy"] = of(source, **({} if source == "imagenet" else {"filled": True}))
    made = Stack(parse(config, ENCRYPTED), "prod").storages["copy.lab-a"].source

    assert made is not None
    assert made.shown is shown
