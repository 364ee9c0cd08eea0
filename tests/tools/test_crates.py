"""Which cargo builds the crates of our images, on machines that have a new one, an old one or none."""

from pathlib import Path

import pytest

from tools import toolchain
from tools.images import crates, debian
from tools.images.crates import _cargo, _environment, _pinned
from tools.shell import ToolError


def put(program: Path, release: str) -> Path:
    """Put a cargo there that says it is of *release*."""
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f"#!/bin/sh\necho 'cargo {release}'; echo 'release: {release}'; echo 'host: m68k-unknown-linux'\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without cargo, on whose apt nothing is installed by a test."""
    monkeypatch.setenv("PATH", str(tmp_path / "own"))
    monkeypatch.setattr(crates, "DEBIAN_CARGO", tmp_path / "debian/cargo")
    monkeypatch.setattr(debian, "codename", lambda: "bookworm")
    monkeypatch.setattr(toolchain, "ensure_debian", lambda *_packages: None)
    return tmp_path


@pytest.mark.parametrize("release", ["1.85.0", "1.96.0-nightly", "2.0.0"])
def test_the_own_cargo_is_taken_where_it_is_new_enough(machine: Path, release: str) -> None:
    """Nothing is installed beside it."""
    own = put(machine / "own/cargo", release)
    put(machine / "debian/cargo", "1.99.0")
    assert _cargo() == own


@pytest.mark.parametrize("old", ["", "1.66.0", "1.84.9"])
def test_debian_has_one_where_there_is_none_or_an_old_one(
    machine: Path, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    """Debian's package of today's compiler is installed by its own name in that release."""
    if old:
        put(machine / "own/cargo", old)
    asked: list[str] = []

    def install(*packages: str) -> None:
        asked.extend(packages)
        put(machine / "debian/cargo", "1.85.0")

    monkeypatch.setattr(toolchain, "ensure_debian", install)
    assert _cargo() == machine / "debian/cargo"
    assert asked == ["cargo-web"]


def test_a_machine_that_can_have_none_is_told_what_is_missing(machine: Path) -> None:
    """The refusal says which Rust, and that Debian's will not do."""
    put(machine / "debian/cargo", "1.66.0")
    with pytest.raises(ToolError, match=r"cargo of Rust 1\.85\.0 or newer.*Debian bookworm"):
        _cargo()


def test_the_callers_flags_do_not_reach_the_build(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built depends on the crate and the compiler, which is that of the cargo."""
    monkeypatch.setenv("RUSTFLAGS", "-C target-cpu=native")
    monkeypatch.setenv("CARGO_ENCODED_RUSTFLAGS", "-C\x1ftarget-cpu=native")
    env = _environment(machine / "own/cargo", machine / "work")
    assert env["RUSTFLAGS"] == "-C target-feature=+crt-static"
    assert "CARGO_ENCODED_RUSTFLAGS" not in env
    assert env["RUSTC"] == str(machine / "own/rustc")


def test_dufs_is_pinned() -> None:
    """One version, whole."""
    assert _pinned("dufs").count(".") == 2
