"""Building: what is kept, when it is made anew, and what an archive says."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from tools.images import Image, build, catalogue
from tools.images.build import _copy, _part, _with_bases, _with_needs
from tools.images.buildah import build_archive
from tools.images.debian import _download, _versions, repositories
from tools.images.recipes import RECIPES, Part
from tools.images.store import KEPT, kept, key_of, key_of_files
from tools.shell import ToolError

SOURCES = """# the release
Types: deb
URIs: http://archive.invalid/debian
Suites: trusty trusty-updates trusty-backports
Components: main
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://archive.invalid/off
Suites: trusty
Components: main
Enabled: no
"""
LISTED = """deb [arch=amd64 signed-by=/k.gpg] http://archive.invalid/security trusty-security main contrib # why
deb-src http://archive.invalid/debian trusty main
deb http://others.invalid/apt somebody-trusty main
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("GPU_RUNTIME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/images"


CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "time": (lambda folder: os.utime(folder / "a", (1, 1)), True),
    "umask": (lambda folder: (folder / "a").chmod(0o600), True),
    "pycache": (lambda folder: (folder / "__pycache__/a.pyc").touch(), True),
    "executable": (lambda folder: (folder / "a").chmod(0o755), False),
    "content": (lambda folder: (folder / "a").write_text("y"), False),
    "name": (lambda folder: (folder / "a").rename(folder / "b"), False),
    "addition": (lambda folder: (folder / "b").touch(), False),
    "link": (lambda folder: (folder / "link").symlink_to("a"), False),
}
"""What happens to a folder, and whether it is the same input afterwards."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_key_follows_what_goes_into_an_image(tmp_path: Path, change: str) -> None:
    """Content, names, links and executable bits; not the time, the umask or what Python left there."""
    (tmp_path / "a").write_text("x")
    (tmp_path / "__pycache__").mkdir()
    before = key_of_files(tmp_path)
    happen, same = CHANGES[change]
    happen(tmp_path)
    assert (key_of_files(tmp_path) == before) is same


def test_inputs_do_not_run_together() -> None:
    """Two rows of inputs that join to the same text are not the same."""
    assert key_of("ab", "c") != key_of("a", "bc")


def test_what_failed_half_way_is_not_kept(cache: Path) -> None:
    """A thing is there whole or not at all; the next run makes it."""

    def fail(work: Path) -> None:
        (work / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept("parts", "thing", "0" * 16, fail)
    assert [file for file in cache.rglob("*") if file.name == "half"] == []
    folder = kept("parts", "thing", "0" * 16, lambda work: (work / "whole").touch())
    assert [file.name for file in folder.iterdir()] == ["whole"]


def test_old_versions_go(cache: Path) -> None:
    """The cache does not grow with every change; other things of a longer name are not touched."""
    other = kept("parts", "thing-two", "a" * 16, lambda work: (work / "x").touch())
    for number in range(KEPT + 2):
        folder = kept("parts", "thing", f"{number:016}", lambda work: (work / "x").touch())
        os.utime(folder, (number, number))
    assert len(list((cache / "parts").glob("thing-0*"))) == KEPT
    assert folder.is_dir()
    assert other.is_dir()


def test_only_the_releases_own_archives_are_used(tmp_path: Path) -> None:
    """Neither backports nor anybody else's packages get into an image, in whichever form apt's sources are."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(LISTED)
    (tmp_path / "sources.list.d/debian.sources").write_text(SOURCES)
    with patch("tools.images.debian.codename", return_value="trusty"):
        found = repositories("deb-src", tmp_path)
    stanzas = [dict(line.split(": ") for line in text.splitlines()) for text in found.strip().split("\n\n")]
    assert [(stanza["Types"], stanza["Uris"], stanza["Suites"], stanza["Components"]) for stanza in stanzas] == [
        ("deb-src", "http://archive.invalid/security", "trusty-security", "main contrib"),
        ("deb-src", "http://archive.invalid/debian", "trusty trusty-updates", "main"),
    ]
    assert [stanza["Signed-By"] for stanza in stanzas] == ["/k.gpg", "/usr/share/keyrings/archive.gpg"]


def test_a_source_that_the_mirror_lacks_is_not_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The version before it is taken, which is said; without any the refusal names those that were tried."""
    tried: list[str] = []

    def fetch(argv: list[str], *_: object, **__: object) -> None:
        tried.append(argv[-1])
        (tmp_path / f"{argv[-1]}.dsc").touch()
        if argv[-1].endswith("22-1"):
            raise ToolError("404")

    with patch("tools.images.debian.step", fetch):
        found = _download("openssl", ["openssl=3.0.22-1", "openssl=3.0.20-1"], [], tmp_path)
        with pytest.raises(ToolError, match=r"openssl cannot be fetched: the mirror has none of openssl=3\.0\.22-1$"):
            _download("openssl", ["openssl=3.0.22-1"], [], tmp_path)
    assert tried == ["openssl=3.0.22-1", "openssl=3.0.20-1", "openssl=3.0.22-1"]
    assert found == tmp_path / "openssl=3.0.20-1.dsc"
    assert "lists openssl=3.0.22-1 and does not have its source" in capsys.readouterr().err


def test_the_newest_version_is_tried_first() -> None:
    """By Debian's order, in which a tilde comes before the end and 10 after 9."""
    listed = "Version: 3.0.9-1\nVersion: 3.0.10-1~deb12u1\nPackage: x\nVersion: 3.0.10-1\nVersion: 3.0.9-1\n"
    with patch("tools.images.debian.listing", return_value=listed):
        assert _versions("openssl", []) == ["3.0.10-1", "3.0.10-1~deb12u1", "3.0.9-1"]


@pytest.mark.usefixtures("cache")
def test_a_part_is_made_of_what_it_needs() -> None:
    """It is given the files of the other part, made anew when these differ, and forgotten with them by a refresh."""
    made: list[str] = []

    def parts(text: str) -> Part:
        needed = Part("needed", lambda: key_of(text), lambda into: (into / "file").write_text(text))
        return Part("whole", lambda: "0" * 16, lambda _, files: made.append((files / "file").read_text()), (needed,))

    folders = [_part(parts(text)) for text in ("a", "b", "b")]
    assert made == ["a", "b"]
    assert folders[0] != folders[1] == folders[2]
    assert [part.name for part in _with_needs([parts("a")])] == ["needed", "whole"]


def test_an_unknown_image_is_refused() -> None:
    """The refusal names it and what there is."""
    with pytest.raises(ToolError, match="there is no image gat; there are bundle, python, workspace, frp"):
        build("gate", "gat")


def test_bases_come_first() -> None:
    """What an image stands on is built before it, asked for or not."""
    assert _with_bases(["tunnel"]) == ["python", "frp", "tunnel"]
    for position, recipe in enumerate(RECIPES.values()):
        assert set(recipe.bases.values()) <= set(list(RECIPES)[:position])
        assert (recipe.context() / "Containerfile").is_file()


def test_an_archive_holds_what_its_reference_says(bundle_image: Image) -> None:
    """The digest is that of the manifest inside, whose layers are all there: the pod gets exactly what was built."""
    with tarfile.open(bundle_image.archive) as tar:
        files = {member.name: extracted.read() for member in tar if (extracted := tar.extractfile(member))}
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files[f"blobs/sha256/{entry['digest'][7:]}"])
    assert catalogue({"bundle": bundle_image}) == {"bundle": f"localhost/gpu-runtime/bundle@{entry['digest']}"}
    assert entry["annotations"]["io.containerd.image.name"] == f"localhost/gpu-runtime/bundle:{entry['digest'][7:19]}"
    digests = [entry["digest"], manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]
    assert digests == [
        f"sha256:{hashlib.sha256(files[f'blobs/sha256/{digest[7:]}']).hexdigest()}" for digest in digests
    ]


def test_nothing_is_built_twice(bundle_image: Image, capfd: pytest.CaptureFixture[str]) -> None:
    """The second time the image is found: neither it nor a part is said to be made."""
    capfd.readouterr()
    assert build("bundle") == {"bundle": bundle_image}
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.usefixtures("bundle_image")
def test_the_same_input_gives_the_same_digest(tmp_path: Path, cache: Path) -> None:
    """On another day, from another checkout with another umask: pods are not replaced for nothing."""
    references = []
    for name, mode, moment in (("one", 0o644, 1), ("two", 0o664, 2_000_000_000)):
        source = tmp_path / name
        (source / "folder").mkdir(parents=True)
        (source / "Containerfile").write_text("FROM scratch\nCOPY folder /folder\n")
        (source / "folder/file").write_text("x")
        (source / "folder/file").chmod(mode)
        os.utime(source / "folder/file", (moment, moment))
        _copy(source, tmp_path / f"context-{name}")
        work = tmp_path / f"work-{name}"
        work.mkdir()
        archive, reference = build_archive("probe", tmp_path / f"context-{name}", {}, work)
        references.append((reference, hashlib.sha256(archive.read_bytes()).hexdigest()))
    assert references[0] == references[1]
    assert cache.is_dir()


def test_pythons_library_is_compiled_whatever_time_it_bears(debian: Path) -> None:
    """Files in an image bear no time: Python takes what was compiled for them all the same, at each start."""
    os.utime(next(debian.glob("usr/lib/python3.*/json/__init__.py")), (1, 1))
    argv = ["chroot", str(debian), "python3", "-v", "-c", "import json"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stderr

    assert re.search(r"# \S+/json/__pycache__/__init__\S+\.pyc matches", said)
    assert not re.findall(r"# code object from \S+\.py\n", said)
