"""What only this machine knows of the stack on a rig, filled into the stack file that people edit."""

import copy
import os
from ipaddress import ip_network
from typing import Any

from tools.rig import Rig
from tools.stack.workspace import Config


def overlay(said: Config, rig: Rig, images_there: dict[str, str], public_key: str) -> Config:
    """Fill in what only this machine knows: the rig, the images on it, the demo key beside each unit's own keys.

    What is of another shape than a stack file's stays as it is, for the program to refuse with path and advice.
    """
    net = rig.network
    filled = copy.deepcopy(said)
    filled["gpu-runtime:cluster"] = {
        "imageVolumes": True,
        **table(filled, "gpu-runtime:cluster"),
        "context": f"rig-{rig.name}",
        "kubeconfig": os.fspath(rig.kubeconfig),
        "apiServerCidrs": _families(ip_network(rig.node_ip)),
        "podCidrs": _families(net.pods, net.pods6),
        "serviceCidrs": _families(net.services, net.services6),
        "nodeCidrs": _families(net.nodes, net.nodes6),
    }
    filled["gpu-runtime:images"] = {**images_there, **table(filled, "gpu-runtime:images")}
    connect = table(table(table(filled, "gpu-runtime:platform"), "ssh"), "connect")
    if connect.get("host") == "localhost":
        connect["host"] = str(rig.node_ip)
    for ssh in _logins(filled):
        keys = ssh.setdefault("authorizedKeys", [])
        if isinstance(keys, list) and public_key not in keys:
            keys.append(public_key)
    return {key: filled[key] for key in sorted(filled)}


def _families(*ranges: object) -> list[str]:
    """Write a range of each family that the rig has."""
    return [str(one) for one in ranges if one is not None]


def _logins(config: Config) -> list[dict[str, Any]]:
    """Give the ``ssh`` block of each unit that has one."""
    tenants = table(config, "gpu-runtime:tenants")
    tables = [table(table(tenants, tenant), "units") for tenant in tenants]
    blocks = [table(units, name).get("ssh") for units in tables for name in units]
    return [block for block in blocks if isinstance(block, dict)]


def table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """Give a table of a table; an empty one where there is none."""
    found = parent.get(key)
    return found if isinstance(found, dict) else {}
