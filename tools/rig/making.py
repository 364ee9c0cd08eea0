"""Make a rig: choose its addresses and cgroups, write its files, start it."""

from dataclasses import dataclass
from pathlib import Path

from tools.rig import addons, cgroups, components, config, images, lifecycle, network, pki, preflight
from tools.rig.cgroups import Hierarchy
from tools.rig.errors import RigError
from tools.rig.network import Network
from tools.rig.state import Folder, Record, locked, rigs_folder, write_json
from tools.toolchain import ensure


@dataclass(frozen=True)
class Programs:
    """What a rig runs: binaries by name, and the archive of its own images."""

    binaries: dict[str, Path]
    images: Path


def programs() -> Programs:
    """Return the programs, built where they are missing."""
    binaries = ensure(*components.PROGRAMS)
    return Programs(binaries, images.system_archive(binaries["coredns"]))


def make(name: str, folder: Folder, link: str, kept: Record | None, runs: Programs) -> None:
    """Start the rig, on the data that belongs to *kept* or with nothing."""
    hierarchies = cgroups.current()
    record = choose(name, folder, kept, hierarchies)
    folder.make()
    configure(name, folder, record.network, runs, hierarchies)
    cgroups.create(hierarchies, name)
    v2 = cgroups.is_v2(hierarchies)
    lifecycle.start(folder, link, record.network, list(record.cgroups), v2=v2)


def choose(name: str, folder: Folder, kept: Record | None, hierarchies: list[Hierarchy]) -> Record:
    """Choose addresses and cgroups, and write them down before anything is made."""
    v2 = cgroups.is_v2(hierarchies)
    groups = tuple(cgroups.group(hierarchy, name, v2=v2) for hierarchy in hierarchies)
    with locked(rigs_folder(), f"rig {name}"):
        record = Record(kept_network(name, kept) if kept else new_network(folder), groups)
        folder.write(record)
    return record


def kept_network(name: str, kept: Record) -> Network:
    """Return the addresses that kept data was made with, or raise RigError when the host uses them now."""
    taken = network.host_networks()
    for block in kept.network.blocks:
        if any(network.overlap(block, other) for other in taken):
            raise RigError(f"this host now uses addresses of {block}: take rig {name} down and up again")
    return kept.network


def new_network(folder: Folder) -> Network:
    """Return addresses that neither the host nor another rig, running or stopped, uses."""
    others = [Folder(path).read() for path in rigs_folder().iterdir() if path.is_dir() and path != folder.path]
    taken = [block for other in others if other for block in other.network.blocks]
    return network.free_network([*network.host_networks(), *taken], ipv6=preflight.has_ipv6())


def configure(name: str, folder: Folder, net: Network, runs: Programs, hierarchies: list[Hierarchy]) -> None:
    """Write everything that the rig reads when it starts."""
    inside = folder.inside
    pki.write_all(inside / "pki", name, net)
    config.write_all(folder, name, net, can_raise_oom=preflight.can_raise_oom())
    (inside / "addons.yaml").write_text(addons.addons(net))
    for key in components.KERNEL_WIDE:
        (inside / "sysctl" / key).parent.mkdir(parents=True, exist_ok=True)
        (inside / "sysctl" / key).write_text("0\n")
    plan = components.plan(folder.path, name, net, runs.binaries, runs.images, hierarchies)
    write_json(inside / "plan.json", plan)
