"""Browsers in bad stack files: each mistake is refused with its path and advice."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.stack_files import image
from tests.stacks.test_refusals import LAB, at, refused

STORAGE = f"{LAB}.storages.scratch"


def told(said: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Set what *said* names by path, with dufs in the catalogue."""

    def change(config: dict[str, Any]) -> None:
        config["images"]["dufs"] = image("dufs")
        for path, value in said.items():
            at(path, value)(config)

    return change


@pytest.mark.parametrize(
    ("said", "path", "advice"),
    [
        ({f"{STORAGE}.browser": "yes"}, f"{STORAGE}.browser", "must be true, false, or a table"),
        ({f"{STORAGE}.browser": {"uploads": True}}, f"{STORAGE}.browser.uploads", "did you mean 'upload'?"),
        ({f"{STORAGE}.browser": {"upload": {"maxSize": "0"}}}, f"{STORAGE}.browser.upload.maxSize", "above zero"),
        ({f"{STORAGE}.browser": {"upload": {"maxSize": "9Pi"}}}, f"{STORAGE}.browser.upload.maxSize", "of that size"),
        (
            {f"{STORAGE}.browser": {"upload": True}, f"{STORAGE}.accessMode": "ReadOnlyMany"},
            f"{STORAGE}.browser.upload",
            "is ReadOnlyMany",
        ),
        (
            {f"{STORAGE}.browser": {"upload": True}, "storage.accessMode": "ReadOnlyMany"},
            f"{STORAGE}.browser.upload",
            "or ReadWriteMany",
        ),
    ],
)
def test_refused(said: dict[str, Any], path: str, advice: str) -> None:
    """The refusal names the path and what would be right."""
    message = refused(told(said))
    assert f"{path}: " in message or f"{path} " in message
    assert advice in message


def test_a_browser_needs_its_image() -> None:
    """The refusal names the storage that would be shown, and how to get the image."""

    def change(config: dict[str, Any]) -> None:
        at(f"{STORAGE}.browser", value=True)(config)
        del config["images"]["dufs"]

    assert "lacks dufs, which the browsers of imagenet.lab-a, scratch.lab-a run" in refused(change)


def test_a_browser_counts_for_the_quota() -> None:
    """What it requests is part of the sum that must fit."""
    short = {f"{LAB}.quota.cpu": "1m"}
    without, beside = (refused(told({**short, f"{STORAGE}.browser": shown})) for shown in (False, True))
    assert wanted_cpu(beside) - wanted_cpu(without) == Decimal("0.01")


def wanted_cpu(message: str) -> Decimal:
    """Read from a refusal how much CPU the tenant requests."""
    (found,) = re.findall(r"1m is less than the (\S+) that", message)
    return Decimal(found)
