"""What the documentation says can be done, can be done."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from components import derive
from stacks.browser_checks import IMAGE
from stacks.load import parse
from stacks.schema import PLATFORM_IMAGES, PROXY_IMAGES, StackConfig
from tests.stack_files import ENCRYPTED, SECRET, handed_over, served_by

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))

HANDED_OVER = {"owner", "token"}
"""What one stack says to another, and nobody writes."""

LONGEST_DECISION = 60
"""Lines: a decision that needs more is two decisions."""


def targets() -> set[str]:
    """Name the targets of the Makefile."""
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def examples() -> list[dict[str, Any]]:
    """Give the stack files of the README below ``gpu-runtime:``: a whole one, and what replaces parts of it."""
    texts = (block for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL) if block.startswith("config:"))
    files = (yaml.safe_load(text)["config"] for text in texts)
    return [{key.removeprefix("gpu-runtime:"): value for key, value in file.items()} for file in files]


def example() -> dict[str, Any]:
    """Give the whole stack file, its secrets as the engine would decrypt them."""
    return {**examples()[0], "secret": SECRET, "previousSecret": SECRET[::-1]}


def keys_of(annotation: Any) -> Iterator[str]:
    """Yield every key that the models below *annotation* have."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield field.alias or name
            yield from keys_of(field.annotation)
    for inner in get_args(annotation):
        yield from keys_of(inner)


def keys_in(value: object) -> Iterator[str]:
    """Yield every key of plain data."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_in(inner)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    """Whoever types what a page says meets a target of that name."""
    commands = re.findall(r"(?:^|`)(?:sudo )?make ((?:-s )?[a-z][a-z0-9-]*)", page.read_text(), re.MULTILINE)
    named = {command.removeprefix("-s ") for command in commands}

    assert named <= targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link leads to a file of the repository."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert broken == []


def test_the_readme_names_the_two_commands() -> None:
    """The way in and the way to be sure are both told."""
    assert {"make up", "make test"} <= set(re.findall(r"^(make \w+)", README, re.MULTILINE))


def test_the_example_is_accepted() -> None:
    """The stack file of the README is one that the program takes."""
    stack = parse(example(), {"gpu-runtime:secret", "gpu-runtime:previousSecret"})

    assert stack.tenants["lab-a"].units["trainer"].flavor == "h100"


def test_the_examples_catalogue_begins_as_it_says() -> None:
    """The first seven images are those that the platform runs, and the next three those of browsers."""
    images = tuple(example()["images"])

    assert len(PLATFORM_IMAGES) == 7
    assert sorted(images[:7]) == sorted(PLATFORM_IMAGES)
    assert sorted(images[7:10]) == sorted((IMAGE, *PROXY_IMAGES))


def test_a_server_elsewhere_is_accepted() -> None:
    """So is the part that names a tunnel server elsewhere, with a certificate in place of its dots."""
    said, other = example(), examples()[1]
    server = {**other["platform"]["ssh"]["server"], "ca": derive.Authority(SECRET, 0, "elsewhere").certificate}
    said["platform"] = {"ssh": served_by(server, said["platform"]["ssh"]), "browser": said["platform"]["browser"]}
    secrets = ("secret", "previousSecret", "serverToken")
    stack = parse({**said, "serverToken": SECRET}, {f"gpu-runtime:{key}" for key in secrets})

    assert stack.ssh.server is not None
    assert set(other) == {"platform", "serverToken"}


def test_a_stack_of_tenants_alone_is_accepted() -> None:
    """So is the part that takes the place of a platform, once the named stack has answered."""
    said, other = example(), examples()[2]
    assert set(other) == {"platformStack", "platformKeys"}
    for key in ("platform", "previousSecret"):
        del said[key]
    said["tenants"]["lab-a"]["units"]["trainer"].pop("domainSuffix")
    stack = parse({**said, **handed_over()}, ENCRYPTED)

    assert stack.platform is None
    assert stack.ssh.connect.host == "ssh.example.com"


def test_the_examples_have_every_key() -> None:
    """A key of the stack file that the README does not show is one that nobody knows of."""
    assert set(keys_of(StackConfig)) - set(keys_in(examples())) - HANDED_OVER == set()


def test_every_decision_is_listed() -> None:
    """The list of decisions has each of them, and each is short enough to be read."""
    folder = ROOT / "docs" / "adr"
    pages = {page.name: page.read_text() for page in folder.glob("[0-9]*.md")}
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (folder / "README.md").read_text())

    assert sorted(listed) == sorted(pages)
    assert [name for name, text in pages.items() if len(text.splitlines()) > LONGEST_DECISION] == []
