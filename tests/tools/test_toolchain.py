import os
import shutil
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.programs import program
from tools import toolchain
from tools.shell import ToolError
from tools.toolchain import debian, engine, go
from tools.toolchain.store import Entry, entry, prune
from tools.toolchain.table import BINARIES, Binary

ROOT = Path(__file__).resolve().parents[2]
GO = "go1.26.0"
SOURCE = 'package main\n\nfunc main() { println("hello") }\n'

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="builds a Go program")


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Binary:
    module = tmp_path / "hello"
    module.mkdir()
    (module / "go.mod").write_text("module hello\n\ngo 1.21\n")
    (module / "go.sum").touch()
    (module / "main.go").write_text(SOURCE)
    binary = Binary("hello", str(module), ".", static=True)
    monkeypatch.setitem(BINARIES, "hello", binary)
    return binary


@needs_go
def test_a_second_run_builds_nothing(hello: Binary, capfd: pytest.CaptureFixture[str]) -> None:
    """A program is built once, and works."""
    first = toolchain.ensure("hello")["hello"]
    capfd.readouterr()

    assert toolchain.ensure("hello")["hello"] == first
    assert capfd.readouterr().err == ""
    assert subprocess.run([first], capture_output=True, text=True, check=True).stderr == "hello\n"
    assert toolchain.locate(hello).origin() == "build"


@needs_go
def test_a_failed_build_says_why_and_leaves_nothing(hello: Binary, cache: Path) -> None:
    """The compiler's last lines are shown and kept; the cache has no half program; the next run works."""
    source = Path(hello.module) / "main.go"
    source.write_text("package main\n\nfunc main() { undefined() }\n")

    with pytest.raises(ToolError, match=r"undefined: undefined"):
        toolchain.ensure("hello")

    assert list((cache / "bin").iterdir()) == []
    assert "undefined" in (cache / "log" / "hello.log").read_text()
    source.write_text(SOURCE)
    assert toolchain.ensure("hello")["hello"].is_file()
    assert not (cache / "log" / "hello.log").exists()


@needs_go
def test_two_runs_at_once_build_once(hello: Binary, cache: Path) -> None:
    """The second of two runs waits for the first one's program."""
    code = (
        "import sys; from tools import toolchain; from tools.toolchain.table import BINARIES, Binary\n"
        f"BINARIES['hello'] = Binary('hello', {hello.module!r}, '.', static=True)\n"
        "print(toolchain.ensure('hello')['hello'])"
    )
    environment = {**os.environ, "GPU_RUNTIME_CACHE": str(cache)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [run.communicate(timeout=120) for run in runs]

    assert answers[0][0] == answers[1][0]
    assert sum("building hello" in errors for _, errors in answers) == 1


@pytest.mark.parametrize("changed", ["main.go", "go.mod", "go.sum", "more.go"])
def test_the_key_changes_with_every_source(hello: Binary, changed: str) -> None:
    """Nothing built from other sources is ever taken for the present ones."""
    before = entry(hello, GO).key
    with (Path(hello.module) / changed).open("a") as file:
        file.write("// changed\n")

    assert entry(hello, GO).key != before


def test_the_key_changes_with_flags_and_go_but_not_with_prose(hello: Binary) -> None:
    """How a program is built is part of its key; a file that no build reads is not."""
    (Path(hello.module) / "README.md").write_text("words")
    variants = [
        hello,
        replace(hello, tags="x"),
        replace(hello, version_symbols=("main.v=1",)),
        replace(hello, static=False),
    ]
    keys = [entry(variant, GO).key for variant in variants] + [entry(hello, "go1.27").key]

    assert len(set(keys)) == len(keys)
    (Path(hello.module) / "README.md").write_text("other words")
    assert entry(hello, GO).key == keys[0]


def test_an_interrupted_fill_leaves_no_program(cache: Path) -> None:
    """A program appears whole or not at all; remains of a run that was killed do not hinder the next."""

    def interrupted(folder: Path) -> None:
        program(folder / "x", "half")
        raise KeyboardInterrupt

    wanted = Entry("x", "1")
    program(cache / "bin" / ".x-1" / "x", "left by a killed run")
    with pytest.raises(KeyboardInterrupt):
        wanted.put("build", interrupted)

    assert wanted.origin() is None
    assert list((cache / "bin").iterdir()) == []
    wanted.put("build", lambda folder: (program(folder / "x", "whole"), None)[1])
    assert wanted.origin() == "build"


def test_pruning_keeps_what_this_checkout_uses(cache: Path) -> None:
    """Only programs with another key go."""
    kept, old = Entry("x", "2"), Entry("x", "1")
    for each in (kept, old):
        each.put("build", lambda folder: (program(folder / "x", "true"), None)[1])

    assert prune([kept]) == ["x-1"]
    assert [folder.name for folder in (cache / "bin").iterdir()] == ["x-2"]


def test_the_provider_is_put_where_the_engine_looks(tmp_path: Path) -> None:
    """Every file of the provider lands among the plugins, under the pinned version, and stays when it is there."""
    provider = BINARIES[engine.PROVIDER]
    made = toolchain.locate(provider)
    made.put("build", lambda folder: (program(folder / provider.name, "true"), None)[1])
    target = tmp_path / "plugins" / f"resource-kubernetes-v{toolchain.versions()['pulumi']['kubernetes']}"

    engine.install_provider(tmp_path / "plugins")

    assert [file.name for file in target.iterdir()] == [provider.name]
    before = target.stat().st_mtime_ns
    engine.install_provider(tmp_path / "plugins")
    assert target.stat().st_mtime_ns == before


def test_without_go_one_sentence_names_what_to_install(
    hello: Binary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_answers: None
) -> None:
    """A machine without Go is told which Go it needs, and for what."""
    del fresh_answers
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolError, match=r"^hello must be built, and that needs Go 1\.26\.0 or newer"):
        toolchain.ensure(hello.name)


@pytest.mark.parametrize(("found", "fits"), [("go1.20.14", False), ("go1.26.0", True), ("go1.27rc1", True)])
def test_too_old_a_go_is_refused(hello: Binary, monkeypatch: pytest.MonkeyPatch, found: str, *, fits: bool) -> None:
    """The versions are compared as numbers, before anything is built."""
    monkeypatch.setattr(go, "version", lambda: found)
    if fits:
        go.require([hello])
        return
    with pytest.raises(ToolError, match=f"this machine has {found}"):
        go.require([hello])


def test_too_small_a_disk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that cannot end is not begun."""
    usage = namedtuple("usage", "total used free")  # noqa: PYI024  - stands in for the one of shutil
    monkeypatch.setattr(go, "version", lambda: GO)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 0))

    with pytest.raises(ToolError, match=r"needs \d+ GB of disk at .*; 0 GB are free"):
        go.require([BINARIES["kube"]])


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("write /tmp/x: no space left on device", "the disk is full"),
        ('Get "x": dial tcp: lookup proxy on 1.1.1.1:53: no such host', "the Go module proxy does not answer"),
        ("go: go.mod requires go >= 1.26.0 (running go 1.24; GOTOOLCHAIN=local)", "this Go is too old"),
        ("verifying module: checksum mismatch", "not the one that go.sum pins"),
        ("./main.go:3:5: something else", "something else"),
    ],
)
def test_a_failed_build_is_explained(tmp_path: Path, output: str, sentence: str) -> None:
    """Known reasons become a sentence; anything else shows the log."""
    log = tmp_path / "log"
    log.write_text(f"runtime\nfmt\n{output}\n")

    assert sentence in go.failure("x", log)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    """A misspelt name is answered with the list."""
    with pytest.raises(ToolError, match=r"no kubctl; it has .*kubectl"):
        toolchain.ensure("kubctl")


def test_missing_debian_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where we may not install, one sentence says what is missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ToolError, match=r"missing.*: no-such-package\.$"):
        debian.ensure_debian("no-such-package")


def test_without_dpkg_programs_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another distribution a package counts as there when its program is."""
    program(tmp_path / "ip", "true")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert debian.missing("iproute2", "socat") == ["socat"]
