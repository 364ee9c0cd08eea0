import http.server
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from tests.tools.programs import installed_pulumi, program
from tools import toolchain
from tools.toolchain import release
from tools.toolchain.table import BINARIES, versions

ENGINE = versions()["pulumi"]["engine"]


def test_an_installed_engine_of_the_pinned_version_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What the user has in exactly our version is used, and looked at again when it changes."""
    installed = installed_pulumi(tmp_path / "user", ENGINE)
    monkeypatch.setenv("PATH", f"{installed.parent}:{os.environ['PATH']}")

    made = toolchain.ensure("pulumi", "pulumi-language-python")

    assert {name: path.resolve() for name, path in made.items()} == {
        name: installed.with_name(name) for name in ("pulumi", "pulumi-language-python")
    }
    assert "building" not in capfd.readouterr().err
    program(installed, "echo v9.9.9 and more")
    assert toolchain.locate(BINARIES["pulumi"]).origin() is None


def test_an_installed_engine_of_another_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version is not close enough."""
    monkeypatch.setenv("PATH", f"{installed_pulumi(tmp_path / 'user', '3.1.0').parent}:{os.environ['PATH']}")

    assert release.on_path(BINARIES["pulumi"]) is None


def test_an_engine_without_its_language_host_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an installation is none."""
    installed = installed_pulumi(tmp_path / "user", ENGINE)
    installed.with_name("pulumi-language-python").unlink()
    monkeypatch.setenv("PATH", f"{installed.parent}:{os.environ['PATH']}")

    assert release.on_path(BINARIES["pulumi"]) is None


@pytest.mark.parametrize(("version", "taken"), [(ENGINE, True), ("3.1.0", False)])
def test_a_release_is_taken_when_it_is_the_pinned_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fresh_answers: None, *, taken: bool
) -> None:
    """A release archive that answers is unpacked, and its engine must say our version."""
    del fresh_answers
    installed_pulumi(tmp_path / "made" / "pulumi", version)
    folder = tmp_path / "unpacked"
    folder.mkdir()

    with served(archive(tmp_path / "made")) as (url, asked):
        monkeypatch.setattr(release, "RELEASES", url)
        assert release.fetch(BINARIES["pulumi"], folder) is taken

    assert asked[0].startswith(f"/sdk/pulumi-v{ENGINE}-")


def test_engine_and_language_host_come_in_one_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_answers: None
) -> None:
    """The release archive is fetched once, and the host lies beside the engine, where the engine looks for it."""
    del fresh_answers
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    installed_pulumi(tmp_path / "made" / "pulumi", ENGINE)

    with served(archive(tmp_path / "made")) as (url, asked):
        monkeypatch.setattr(release, "RELEASES", url)
        made = toolchain.ensure("pulumi", "pulumi-language-python")

    assert len(asked) == 1
    assert made["pulumi-language-python"].resolve() == made["pulumi"].with_name("pulumi-language-python")


def test_releases_that_do_not_answer_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], fresh_answers: None
) -> None:
    """Without the releases' host the build goes on, and the host is asked once per run."""
    del fresh_answers
    monkeypatch.setattr(release, "RELEASES", "http://127.0.0.1:9")  # the discard port, on which nothing listens

    assert not release.fetch(BINARIES["pulumi"], tmp_path)
    assert not release.fetch(BINARIES["pulumi-resource-kubernetes"], tmp_path)
    assert capfd.readouterr().err.count("does not answer") == 1


def archive(folder: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        tar.add(folder, arcname=".")
    return data.getvalue()


@contextmanager
def served(content: bytes) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(content, asked.append))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def handler(content: bytes, note: Callable[[str], None]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            note(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, *_: object) -> None:
            """Be quiet."""

    return Handler
