"""The stack whose walls are asked for; the local one is there before its first `up`, at nominal addresses."""

from ipaddress import IPv4Network

from typing_extensions import override

from stacks.resolve import Stack
from tools.rig import Rig
from tools.rig.network import Network
from tools.stack.local import IMAGES, named, template
from tools.stack.overlay import overlay
from tools.stack.reading import read_stack, stack_from
from tools.stack.workspace import LOCAL, Workspace

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICBDsU6Oa76eYXF5z5bHza/dc58c1UFQHxGcF6sH0frY nobody"
"""Stands for the demo key; nobody has its other half."""


class _NominalRig(Rig):
    """A rig that is nowhere, at the addresses that the first one of a machine gets."""

    @property
    @override
    def network(self) -> Network:
        return Network(IPv4Network("10.128.0.0/16"))


def stack_of(name: str) -> Stack:
    """Give the stack called *name* without the engine, as its file says now. Raises ToolError where it cannot be read.

    Of the local stack that is the file that people edit, `up` or not; once there is a rig, at its addresses.
    """
    if name != LOCAL:
        return read_stack(name)
    rig = Rig(LOCAL)
    return _on(rig if rig.folder.read() else _NominalRig(LOCAL), Workspace())


def nominal(workspace: Workspace) -> Stack:
    """Give the stack on a rig as its file says, the same on every machine. Raises ToolError."""
    return _on(_NominalRig(workspace.stack), workspace)


def _on(rig: Rig, workspace: Workspace) -> Stack:
    said = template(workspace.source)
    ours = (*IMAGES, *named(said))
    images = {name: f"localhost/gpu-runtime/{name}@sha256:{name.encode().hex():0<64}" for name in ours}
    return stack_from(overlay(said, rig, images, KEY), workspace.stack)
