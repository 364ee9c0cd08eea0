"""A copy of a volume, by our own image and the bundle's rsync: all of it or a failure, and its source untouched."""

import os
import signal
import subprocess
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prepare.tally import MOST_NAMED, compare

from components.prepare import OWN_PROGRAM
from tests.images.conftest import unpack
from tests.images.containers import GROUP, PATIENCE, UID, Pod, until
from tools.images import build

COPY = (*OWN_PROGRAM, "copy", "--rsync=/.gpu-runtime/tools/rsync", "/source", "/workspace")

SLOW = 96 << 20
"""Bytes of a file without content: rsync reads them for a moment, and they take no room."""


@pytest.fixture(scope="session")
def own_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of our image that fills volumes."""
    folder = tmp_path_factory.mktemp("prepare")
    folder.chmod(0o755)
    unpack(build("prepare")["prepare"].archive, folder)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Give the volume that is copied, still empty."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def copier(pod: Pod, own_image: Path, source: Path) -> Pod:
    """Give a pod that copies `source`, as a prepare job's is."""
    pod.image = own_image
    pod.read_only_root = True
    pod.env |= {"PYTHONPATH": "/opt/gpu-runtime", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    pod.volumes["/source"] = (source, "ro")
    return pod


def give(*paths: Path) -> None:
    """Make the copier's user the owner, of links themselves."""
    for path in paths:
        os.chown(path, UID, GROUP, follow_symlinks=False)


def everything(root: Path) -> list[tuple[object, ...]]:
    """Tell of each entry what a copy keeps; what stands in the root for others is left out."""
    ours = {".gpu-runtime", "lost+found"}
    paths = sorted(path for path in root.rglob("*") if not ours & set(path.relative_to(root).parts))
    return [_about(root, path) for path in paths]


def _about(root: Path, path: Path) -> tuple[object, ...]:
    status = path.lstat()
    content: object = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
    times = None if path.is_symlink() else status.st_mtime_ns
    links = 1 if path.is_dir() else status.st_nlink
    return str(path.relative_to(root)), status.st_mode, times, links, content


def marker(pod: Pod) -> Path:
    """Return the file that says what the volume was prepared with."""
    return pod.path("workspace") / ".gpu-runtime/prepared"


def test_a_copy_is_what_its_source_is(copier: Pod, source: Path) -> None:
    """Modes, times, links of both kinds, empty folders, holes and any name are kept, the root is not touched."""
    for folder in ("a/deep", "empty", ".gpu-runtime", "lost+found"):
        (source / folder).mkdir(parents=True)
    (source / ".gpu-runtime/prepared").write_text("another digest")
    (source / "lost+found").chmod(0o700)
    (source / "a/run").write_text("#!/bin/sh")
    (source / "a/run").chmod(0o751)
    (source / "a/deep/again").hardlink_to(source / "a/run")
    (source / "dangling").symlink_to("/nowhere")
    (source / "to-folder").symlink_to("a")
    Path(os.fsdecode(os.fsencode(source) + b"/line\nbreak \xff\x1b[31m")).write_bytes(b"odd")
    with (source / "holes").open("wb") as file:
        file.truncate(SLOW)
    odd = ["#x", ";y", " sp", "-dash", "#dir/in/;f"]
    (source / "#dir/in").mkdir(parents=True)
    for name in odd:
        (source / name).write_text("odd")
    os.mkfifo(source / "pipe")
    give(*(path for path in source.rglob("*") if path.name != "lost+found"))
    os.utime(source / "a/run", ns=(1, 1_500_000_000_123_456_789))
    os.utime(source / "a/deep", ns=(1, 1_400_000_000_000_000_000))
    (source / "pipe").unlink()
    before, target = everything(source), copier.path("workspace")
    source.chmod(0o705)
    root = target.stat().st_mode
    done = copier.prepare("sha256:a", *COPY)

    assert done.returncode == 0, done.stderr
    assert target.stat().st_mode == root
    assert everything(target) == everything(source) == before
    assert (target / "holes").stat().st_blocks < SLOW >> 12
    assert "copied and compared: 9 files, 5 folders, 2 links, 96.0 MiB" in done.stdout
    assert marker(copier).read_text() == "sha256:a\n"
    assert {path.name for path in target.iterdir()} == {path.name for path in source.iterdir()} - {"lost+found"}


def test_pipes_and_sockets_stay_behind(copier: Pod, source: Path) -> None:
    """What programs speak through is no data, and its absence is no failure."""
    os.mkfifo(source / "pipe")
    (source / "file").write_text("data")
    give(source / "pipe", source / "file")
    done = copier.prepare("sha256:a", *COPY)

    assert done.returncode == 0, done.stderr
    assert not (copier.path("workspace") / "pipe").exists()


def test_an_empty_source_is_fine(copier: Pod) -> None:
    """Nothing is copied, and the volume counts as prepared."""
    done = copier.prepare("sha256:a", *COPY)

    assert done.returncode == 0, done.stderr
    assert "0 files, 0 folders, 0 links, 0 bytes" in done.stdout
    assert marker(copier).exists()


def test_a_part_of_a_second_counts(copier: Pod, source: Path) -> None:
    """A folder whose time differs by a nanosecond gets its source's time, as one that was filled within a second."""
    (source / "folder").mkdir()
    give(source / "folder")
    assert copier.prepare("sha256:a", *COPY).returncode == 0
    folder, time = copier.path("workspace") / "folder", (source / "folder").stat().st_mtime_ns
    os.utime(folder, ns=(time, time ^ 1))
    done = copier.prepare("sha256:b", *COPY)

    assert done.returncode == 0, done.stderr
    assert folder.stat().st_mtime_ns == time


def test_what_units_put_beside_the_copy_stays(copier: Pod, source: Path) -> None:
    """Copied anew, a volume keeps what its source does not have, and gets back what it has."""
    (source / "same").write_text("of the source")
    give(source / "same")
    assert copier.prepare("sha256:a", *COPY).returncode == 0
    mine, same = copier.path("workspace") / "mine", copier.path("workspace") / "same"
    mine.write_text("of a unit")
    same.write_text("changed by a unit")
    done = copier.prepare("sha256:b", *COPY)

    assert done.returncode == 0, done.stderr
    assert (mine.read_text(), same.read_text()) == ("of a unit", "of the source")


def test_what_a_unit_changed_in_silence_is_copied_anew(copier: Pod, source: Path) -> None:
    """Size and time of a file prove nothing where a copy was in use: its content is compared."""
    (source / "folder").mkdir()
    (source / "folder/same").write_text("of the source")
    give(source / "folder", source / "folder/same")
    assert copier.prepare("sha256:a", *COPY).returncode == 0
    changed = copier.path("workspace") / "folder/same"
    before = changed.stat()
    changed.write_text("by some unit.")
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (changed.stat().st_size, changed.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    done = copier.prepare("sha256:b", *COPY)

    assert done.returncode == 0, done.stderr
    assert changed.read_text() == "of the source"


def slow(source: Path) -> None:
    """Fill a source whose copy takes a while, between a file before it and a folder after it."""
    (source / "a").write_text("first")
    with (source / "b").open("wb") as file:
        file.truncate(2 * SLOW)
    (source / "z").mkdir()
    (source / "z/last").write_text("last")
    give(*source.rglob("*"))


def half(pod: Pod) -> bool:
    """Say whether the slow file is on its way."""
    folder = pod.path("workspace") / ".gpu-runtime/half"
    with suppress(FileNotFoundError):  # not yet, or no more
        return any(folder.iterdir())
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_copy_that_is_killed_half_way(copier: Pod, source: Path, number: signal.Signals) -> None:
    """Nothing vouches for half a copy, and the next try makes it whole and leaves no piece of the first."""
    slow(source)
    with copier.preparing("sha256:a", *COPY) as running:
        until(lambda: half(copier))
        running.kill() if number == signal.SIGKILL else running.signal(number)
        said = running.namespaces.communicate(timeout=PATIENCE)[1]
    killed = marker(copier).exists(), running.namespaces.returncode
    done = copier.prepare("sha256:a", *COPY)

    assert killed[0] is False
    assert killed[1] != 0
    assert number == signal.SIGKILL or "gpu-runtime: stopped before it was done" in said
    assert done.returncode == 0, done.stderr
    assert everything(copier.path("workspace")) == everything(source)
    assert [path.name for path in marker(copier).parent.iterdir()] == ["prepared"]


def test_a_source_that_goes_while_it_is_copied(copier: Pod, source: Path) -> None:
    """What was there at the start and is gone at the end is a failure that says so."""
    slow(source)
    with copier.preparing("sha256:a", *COPY) as running:
        until(lambda: half(copier))
        (source / "z/last").unlink()
        (source / "z").rmdir()
        said = running.namespaces.communicate(timeout=PATIENCE)[1]

    assert running.namespaces.returncode == 1
    assert "the source changed meanwhile" in said.splitlines()[-1]
    assert not marker(copier).exists()


def test_what_may_not_be_read_fails_the_copy(copier: Pod, source: Path) -> None:
    """A file of somebody else in the source is named, and not silently left out."""
    (source / "theirs").write_text("secret")
    (source / "theirs").chmod(0o600)
    done = copier.prepare("sha256:a", *COPY)

    assert done.returncode == 1
    assert "/source/theirs" in done.stderr
    assert "has what this storage's user may not read" in done.stderr.splitlines()[-1]
    assert not marker(copier).exists()


@pytest.fixture
def small(copier: Pod) -> Iterator[Pod]:
    """Give the copier a volume of two MiB."""
    folder = copier.path("workspace")
    options = f"size=2m,mode=2775,gid={GROUP}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    yield copier
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_volume_that_is_too_small(small: Pod, source: Path) -> None:
    """A full volume is told as such, nothing vouches for it, and a second try in it fails alike."""
    (source / "large").write_bytes(os.urandom(3 << 20))
    give(source / "large")
    for _ in range(2):
        done = small.prepare("sha256:a", *COPY)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert not marker(small).exists()


def test_every_difference_is_seen(tmp_path: Path) -> None:
    """Whatever the copy lacks or has otherwise is named: a size, a time, a kind, the target of a link."""
    source, target = tmp_path / "source", tmp_path / "target"
    for root in (source, target):
        root.mkdir()
        for name in ("same", "longer", "newer", "kind", "gone"):
            (root / name).write_text("x")
            os.utime(root / name, (1000, 1000))
        (root / "link").symlink_to("same" if root == source else "longer")
        (root / "folder").mkdir()
        (root / "folder/inner").write_text("x")
        os.utime(root / "folder/inner", (1000, 1000))
    (target / "longer").write_text("xx")
    os.utime(target / "newer", (2000, 2000))
    for name in ("kind", "gone"):
        (target / name).unlink()
    (target / "kind").mkdir()
    (target / "more").write_text("of a unit")
    tally = compare(source, target)

    assert sorted(tally.wrong) == ["gone", "kind", "link", "longer", "newer"]
    assert (tally.files, tally.folders, tally.links, tally.size, tally.copied) == (6, 1, 1, 6, 5)
    assert tally.lacking == 5


def test_a_copy_that_lacks_all_is_told_in_little_memory(tmp_path: Path) -> None:
    """Of a folder of many files one entry at a time is looked at, and of all that is missing some names are kept."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "folder").mkdir(parents=True)
    target.mkdir()
    many = 5_000
    for number in range(many):
        (source / f"folder/{number:0200}").touch()
    tracemalloc.start()
    tally = compare(source, target)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (tally.files, tally.lacking, len(tally.wrong)) == (many, many + 1, MOST_NAMED)
    assert most < many * 50
