"""What comes from Debian: OpenSSH's source package and a small root file system, by this machine's own sources."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cmp_to_key
from pathlib import Path

from tools import toolchain
from tools.images.store import step, work_folder
from tools.shell import ToolError, say

SUITES = ("{}", "{}-updates", "{}-security")
"""Of the release that this machine runs; backports and the archives of others would bring other versions."""

BUILD_PACKAGES = ("gcc", "libc6-dev", "make", "patch", "perl", "dpkg-dev", "musl-tools", "linux-libc-dev")

ROOT_PACKAGES = ("usr-is-merged", "python3", "media-types", "procps")
"""usr-is-merged and media-types are the small ones of two packages that would do."""

ENTRANCE_PACKAGES = ("usr-is-merged", "python3", "media-types", "haproxy")
"""haproxy: the stable release's own, which Debian mends; python3 runs the companion."""

WORKSPACE_PACKAGES = (*ROOT_PACKAGES, "openssh-server", "rsync", "tini")

ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^]]*)]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<parts>[^#]*[^#\s])")
"""apt's older form of a source."""

LEFT_OUT = ("doc", "man", "locale", "info")
"""Folders of /usr/share that nobody reads in a container."""


def codename() -> str:
    """Return the name of the Debian release that this machine runs."""
    release = Path("/etc/os-release").read_text()
    if not (found := re.search(r"^VERSION_CODENAME=(\w+)$", release, re.MULTILINE)):
        raise ToolError("images are built on Debian (or a system made from it): /etc/os-release names no release here")
    return found[1]


def repositories(types: str, apt: Path = Path("/etc/apt")) -> str:
    """Return the Debian archives that apt uses on this machine as sources of *types* ("deb", "deb-src")."""
    wanted = {suite.format(codename()) for suite in SUITES}
    stanzas = [text for entry in _entries(apt) if (text := _narrowed(entry, wanted, types))]
    if not stanzas:
        raise ToolError(f"apt on this machine has no source for {codename()}; {apt} should name one")
    return "\n\n".join(stanzas) + "\n"


def fetch_source(package: str, folder: Path, release: str | None = None) -> Path:
    """Unpack the newest source *package* below *folder*, with Debian's patches applied, and return where it lies.

    Where this machine's mirror lists a version and does not have it, that is said, and the one before it is taken.
    *release* takes the newest of that release alone, without what came by its security archive.
    Raises ToolError when none can be fetched.
    """
    for part in ("parts", "lists/partial", "cache/archives/partial"):
        (folder / "apt" / part).mkdir(parents=True)
    (folder / "apt/parts/debian.sources").write_text(repositories("deb-src"))
    options = [*_private_apt(folder / "apt")]
    step(["apt-get", "-q", *options, "update"], f"{package} index", cwd=folder)
    wanted = [f"{package}/{release}"] if release else [f"{package}={v}" for v in _versions(package, options)]
    description = _download(package, wanted, options, folder)
    step(["dpkg-source", "-x", description, "source"], f"{package} unpack", cwd=folder)
    return folder / "source"


def make_libcrypto(recipe: Path, into: Path) -> None:
    """Fill *into* with OpenSSL's static libcrypto from Debian's source, by the script in folder *recipe*."""
    toolchain.ensure_debian(*BUILD_PACKAGES)
    with work_folder(into / "work") as work:
        step([recipe / "build", fetch_source("openssl", work), into], "libcrypto build")


def make_openssh(recipe: Path, into: Path, libcrypto: Path) -> None:
    """Fill *into* with static OpenSSH programs from Debian's source and *libcrypto*, by the script in *recipe*."""
    toolchain.ensure_debian(*BUILD_PACKAGES)
    with work_folder(into / "work") as work:
        step([recipe / "build", fetch_source("openssh", work), libcrypto, into], "openssh build")


def make_rsync(recipe: Path, into: Path) -> None:
    """Fill *into* with a static rsync, and a link to the bundle's scp.

    Mirrors lag behind the security archive's sources, and a repacked source may lack the libraries that this build
    takes from it: then the release's own version is built, and that is said.
    """
    toolchain.ensure_debian(*BUILD_PACKAGES)
    try:
        _build_rsync(recipe, into, None)
    except ToolError as error:
        reason = str(error).partition("\n")[0]
        say(f"rsync: taking the version of {codename()} itself, since the newest cannot be built: {reason}")
        _build_rsync(recipe, into, codename())
    (into / "scp").symlink_to("../bin/scp")


def _build_rsync(recipe: Path, into: Path, release: str | None) -> None:
    with work_folder(into / "work") as work:
        source = fetch_source("rsync", work, release)
        step([recipe / "build", source, into], "rsync build")


def copy_static(into: Path) -> None:
    """Fill *into* with Debian's static busybox, also as `sh`, and tini."""
    toolchain.ensure_debian("busybox-static", "tini")
    shutil.copy("/bin/busybox", into / "busybox")
    shutil.copy("/usr/bin/tini-static", into / "tini")
    (into / "sh").symlink_to("busybox")


COMPILE_PYTHON = (
    'if [ -e "$1/usr/bin/python3" ]; then'
    ' chroot "$1" python3 -m compileall -qf --invalidation-mode unchecked-hash /usr/lib/python3*; fi'
)
"""Compiled modules that hold whatever time their sources bear. An image's files bear none, so that Python compiled its
library anew at each start of a container, three times as long as our programs need to start."""


def make_root(into: Path, packages: Iterable[str] = ROOT_PACKAGES) -> None:
    """Write root.tar, the file system of a small Debian with *packages*, into folder *into*."""
    toolchain.ensure_debian("mmdebstrap")
    sources = into / "debian.sources"
    sources.write_text(repositories("deb"))
    excludes = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in LEFT_OUT]
    hooks = ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", '--aptopt=APT::Install-Recommends "false"']
    include = f"--include={','.join(packages)}"
    command = ["mmdebstrap", "--variant=essential", *hooks, f"--customize-hook={COMPILE_PYTHON}", include, *excludes]
    step([*command, codename(), into / "root.tar", sources], "debian root")
    sources.unlink()


def listing(package: str, options: Iterable[str]) -> str:
    """Return what the archives' indexes say of source *package*."""
    ask = ["apt-cache", *options, "showsrc", "--only-source", package]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout


def _versions(package: str, options: Iterable[str]) -> list[str]:
    """List the versions of source *package* that the archives name, the newest first."""
    found = re.findall(r"^Version: (\S+)$", listing(package, options), re.MULTILINE)
    return sorted(dict.fromkeys(found), key=cmp_to_key(_compared), reverse=True)


def _compared(one: str, other: str) -> int:
    """Order two versions as Debian does."""
    return 1 if subprocess.run(["dpkg", "--compare-versions", one, "gt", other], check=False).returncode == 0 else -1


def _download(package: str, wanted: Iterable[str], options: Iterable[str], folder: Path) -> Path:
    """Fetch the first of *wanted* that the mirror has (in apt's words), and return its description."""
    for target in wanted:
        try:
            step(["apt-get", "-q", *options, "source", "--download-only", target], f"{package} download", cwd=folder)
        except ToolError:
            say(f"image part {package}: the mirror lists {target} and does not have its source")
            for half in folder.glob("*.dsc"):
                half.unlink()
        else:
            (description,) = folder.glob("*.dsc")
            return description
    raise ToolError(f"the source of {package} cannot be fetched: the mirror has none of {', '.join(wanted) or 'it'}")


def _private_apt(folder: Path) -> Iterator[str]:
    """Options with which apt touches nothing of this machine's own state."""
    settings = {"Etc::sourcelist": "/dev/null", "Etc::sourceparts": folder / "parts"}
    settings |= {"State::Lists": folder / "lists", "Cache": folder / "cache"}
    for name, value in settings.items():
        yield from ("-o", f"Dir::{name}={value}")
    yield from ("-o", "APT::Sandbox::User=root")  # the cache may lie in a home that apt's own user cannot enter


def _entries(apt: Path) -> Iterator[dict[str, str]]:
    """Yield every source of apt as the fields of deb822, whichever of apt's two forms it is written in."""
    folder = apt / "sources.list.d"
    for file in [apt / "sources.list", *sorted(folder.glob("*.list"))]:
        if file.exists():
            yield from _one_line(file.read_text().splitlines())
    for file in sorted(folder.glob("*.sources")):
        text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE)
        yield from (dict(_fields(stanza)) for stanza in re.split(r"\n\s*\n", text.strip()))


def _fields(stanza: str) -> Iterator[tuple[str, str]]:
    for field in re.split(r"\n(?=\S)", stanza):
        name, _, value = field.partition(":")
        yield name.strip().title(), value.strip("\n").lstrip(" ")


def _one_line(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        if found := ONE_LINE.match(line):
            options = dict(word.partition("=")[::2] for word in (found["options"] or "").split())
            known = {name.title(): value for name, value in options.items() if name in ("signed-by", "trusted")}
            yield {"Types": "deb", "Uris": found["uri"], "Suites": found["suite"], "Components": found["parts"]} | known


def _narrowed(entry: dict[str, str], wanted: set[str], types: str) -> str:
    """Return *entry* with only the *wanted* suites, or nothing when it has none of them or is switched off."""
    suites = [suite for suite in entry.get("Suites", "").split() if suite.rstrip("/") in wanted]
    if not suites or entry.get("Enabled", "yes").lower() == "no" or "deb" not in entry.get("Types", "").split():
        return ""
    fields = entry | {"Types": types, "Suites": " ".join(suites)}
    return "\n".join(f"{name}: {value}" for name, value in fields.items())
