"""The rig: a local one-node Kubernetes cluster with simulated GPUs, in namespaces of its own and without a way out."""

from tools.rig.enforcement import settle, unenforced
from tools.rig.errors import RigError
from tools.rig.network import Network
from tools.rig.outside import outside
from tools.rig.rig import Rig, Status

__all__ = ["Network", "Rig", "RigError", "Status", "outside", "settle", "unenforced"]
