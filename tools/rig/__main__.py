"""`python -m tools.rig up|down|status|kubeconfig|load NAME`."""

import argparse
from pathlib import Path

from tools.rig.rig import Rig
from tools.shell import command

STOPPED = 3
"""Exit status of `status` when the rig is not running, as service managers have it."""


def main() -> int:
    """Do what the command line says; return the exit status."""
    arguments = _parser().parse_args()
    rig = Rig(arguments.name)
    match str(arguments.command):
        case "up":
            rig.up(fresh=arguments.fresh)
        case "down":
            rig.down()
        case "kubeconfig":
            _ = rig.network  # says when there is none
            print(rig.kubeconfig)
        case "load":
            print("\n".join(rig.load(*arguments.archives)))
        case _:
            return _status(rig)
    return 0


def _status(rig: Rig) -> int:
    status = rig.status()
    print(f"rig {rig.name}: {status.state}{f' ({status.detail})' if status.detail else ''}")
    if status.state in {"absent", "stopped"}:
        return STOPPED
    net = rig.network
    print(f"  node {net.node_ip} (host {net.host_ip}), pods {net.pods}, Services {net.services}, DNS {net.dns_ip}")
    six = (
        f"node {net.node_ip6}, pods {net.pods6}, Services {net.services6}" if net.ipv6 else "none: the kernel lacks it"
    )
    print(f"  IPv6: {six}")
    print(f"  kubeconfig {rig.kubeconfig}, logs {rig.folder.logs}")
    print(f"  GPUs: simulated, resource nvidia.com/gpu; memory {rig.memory / 2**20:.0f} MiB; cluster {rig.identity}")
    print(f"  running: {', '.join(rig.components())}")
    return 0 if status.state == "running" else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.rig",
        description="A local one-node Kubernetes cluster with simulated GPUs and no way out. Needs root on Linux.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_text in {
        "up": "make the rig run; does nothing when it does",
        "down": "remove the rig with all its data",
        "status": "say how the rig is (exit status 0 running, 1 not healthy, 3 not running)",
        "kubeconfig": "print the path of the administrator's kubeconfig",
        "load": "bring image archives in and print their references by digest",
    }.items():
        one = commands.add_parser(name, help=help_text, description=help_text)
        one.add_argument("name", help="name of the rig, for example local", metavar="NAME")
        if name == "up":
            one.add_argument("--fresh", action="store_true", help="discard kept data and begin a new cluster")
        if name == "load":
            one.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE", help="OCI or docker archive")
    return parser


if __name__ == "__main__":
    command(main)
