"""From recipes to images: keys, the order of building, the catalogue, and the way to a registry."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.images import buildah
from tools.images.recipes import RECIPES, Part, Recipe
from tools.images.store import files_in, forget, kept, key_of, key_of_files, store, work_folder
from tools.shell import ToolError, say

ARCHIVE, REFERENCE = "image.tar", "ref"
"""Files in an image's folder of the cache."""

FILES, DIGEST = "files", "digest"
"""What lies in a part's folder of the cache: its files, and one hash of them all (a refreshed part may differ)."""

LOCAL_REGISTRIES = ("localhost:", "127.0.0.1:")
"""Registries on this machine are spoken to without TLS, as every other tool does."""


@dataclass(frozen=True)
class Image:
    """One built image: an OCI archive, and the reference that a pod names it by."""

    name: str
    archive: Path
    ref: str

    @property
    def digest(self) -> str:
        """The digest of its manifest, `sha256:…`."""
        return self.ref.rpartition("@")[2]


def build(*names: str, refresh: bool = False) -> dict[str, Image]:
    """Return the images called *names*, or all of them, building what is missing. *refresh* makes their parts anew.

    Raises ToolError for an unknown name, a machine that cannot build, or a build that fails.
    """
    if unknown := sorted(set(names) - set(RECIPES)):
        raise ToolError(f"there is no image {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    wanted = _with_bases(names or RECIPES)
    if refresh:
        _forget_parts(wanted)
    built: dict[str, Image] = {}
    for name in wanted:
        built[name] = _image(name, RECIPES[name], built)
    return {name: built[name] for name in names or RECIPES}


def catalogue(images: Mapping[str, Image]) -> dict[str, str]:
    """Return the references of *images* by name, as a stack file's `images` has them."""
    return {name: image.ref for name, image in images.items()}


def part_files(part: Part) -> Path:
    """Return the folder with the files of *part*, which is made where it is missing."""
    return _part(part) / FILES


def push(images: Mapping[str, Image], registry: str) -> dict[str, str]:
    """Copy *images* to *registry* (`host[:port]/path`) as they are and return their references there, by digest.

    Credentials are those of `docker login` or `skopeo login`. Raises ToolError when a copy fails.
    """
    return {name: _push(image, registry.rstrip("/")) for name, image in images.items()}


def _push(image: Image, registry: str) -> str:
    plain = registry.startswith(LOCAL_REGISTRIES)
    target = f"{registry}/{image.name}"
    with work_folder(store() / "work" / f"push-{image.name}-{os.getpid()}") as work:
        tagged = f"{target}:{buildah.short(image.digest)}"
        buildah.push_archive(image.name, image.archive, tagged, plain=plain, work=work)
    return f"{target}@{image.digest}"


def _with_bases(names: Iterable[str]) -> list[str]:
    """Return *names* and what they stand on, in the order of building."""
    needed = set(names)
    for name in reversed(list(RECIPES)):
        if name in needed:
            needed.update(RECIPES[name].bases.values())
    return [name for name in RECIPES if name in needed]


def _with_needs(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield from _with_needs(part.needs)
        yield part


def _forget_parts(names: Iterable[str]) -> None:
    for part in {part.name for name in names for part in _with_needs(RECIPES[name].parts)}:
        forget("parts", part)


def _image(name: str, recipe: Recipe, built: Mapping[str, Image]) -> Image:
    if not (recipe.context() / "Containerfile").is_file():
        raise ToolError(f"image {name}: {recipe.folder}/Containerfile is missing")
    bases = {argument: built[base] for argument, base in recipe.bases.items()}
    parts = {part.name: _part(part) for part in recipe.parts}

    def make(work: Path) -> None:
        say(f"image {name}: building")
        _fill(work, name, recipe, parts, bases)

    folder = kept("built", name, _key(recipe, parts, bases), make)
    return Image(name, folder / ARCHIVE, (folder / REFERENCE).read_text())


def _part(part: Part) -> Path:
    needed = [_part(need) for need in part.needs]

    def make(work: Path) -> None:
        say(f"image part {part.name}: making")
        (work / FILES).mkdir()
        part.make(work / FILES, *(folder / FILES for folder in needed))
        (work / DIGEST).write_text(key_of_files(work / FILES))

    key = key_of(part.key(), *map(_digest, needed)) if needed else part.key()
    return kept("parts", part.name, key, make)


def _digest(part: Path) -> str:
    return (part / DIGEST).read_text()


def _key(recipe: Recipe, parts: Mapping[str, Path], bases: Mapping[str, Image]) -> str:
    stands_on = (f"{argument}={image.digest}" for argument, image in sorted(bases.items()))
    how = key_of_files(Path(buildah.__file__), recipe.context())
    return key_of(how, *map(_digest, parts.values()), *stands_on)


def _fill(work: Path, name: str, recipe: Recipe, parts: Mapping[str, Path], bases: Mapping[str, Image]) -> None:
    """Leave the archive and the reference, and nothing else, in folder *work*."""
    context = work / "context"
    _copy(recipe.context(), context)
    for part, folder in parts.items():
        _copy(folder / FILES, context / "parts" / part)
    scratch = work / "scratch"
    scratch.mkdir()
    archives = {argument: image.archive for argument, image in bases.items()}
    archive, reference = buildah.build_archive(name, context, archives, scratch)
    archive.rename(work / ARCHIVE)
    (work / REFERENCE).write_text(reference)
    shutil.rmtree(context)
    shutil.rmtree(scratch)


def _copy(source: Path, target: Path) -> None:
    """Copy files as the key sees them: whatever this checkout's umask was, the image is the same."""
    for file in files_in(source):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.parent.chmod(0o755)
        shutil.copyfile(file, place, follow_symlinks=False)
        if not file.is_symlink():
            place.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
