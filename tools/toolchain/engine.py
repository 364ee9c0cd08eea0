"""The environment in which `pulumi` is ours: pinned, with its plugins in place, and off the network."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.shell import cache_dir, locked
from tools.toolchain.provide import ensure, locate
from tools.toolchain.store import RECORD
from tools.toolchain.table import BINARIES, PULUMI_PIECES, versions

PROVIDER = "pulumi-resource-kubernetes"


def pulumi_env() -> dict[str, str]:
    """Return what to set over the environment for `pulumi`, after making what it needs.

    The provider is put among the plugins of $PULUMI_HOME (default ~/.pulumi), where the engine itself would have put
    it: a caller with a home of its own sets PULUMI_HOME before.
    """
    engine = ensure(*PULUMI_PIECES)["pulumi"]
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    install_provider(home / "plugins")
    settings = {
        "PATH": os.pathsep.join([str(engine.parent), os.environ.get("PATH", os.defpath)]),
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",  # another provider on PATH would be taken, whatever its version
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    if locate(BINARIES[PROVIDER]).origin() == "build":
        settings["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return settings


def install_provider(plugins: Path) -> None:
    """Put the provider into *plugins* unless its version is there; linked where the file system allows."""
    target = plugins / f"resource-kubernetes-v{versions()['pulumi']['kubernetes']}"
    if os.access(target / PROVIDER, os.X_OK):
        return
    with locked(cache_dir() / "plugins.lock", "toolchain"):
        draft = plugins / f".{target.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for file in _provider_files():
            _link(file, draft / file.name)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)


def _provider_files() -> Iterator[Path]:
    return (file.resolve() for file in locate(BINARIES[PROVIDER]).folder.iterdir() if file.name != RECORD)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
