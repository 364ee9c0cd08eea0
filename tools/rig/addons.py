"""Objects that a rig's cluster has from its start: rights, storage class, cluster DNS."""

from pathlib import Path
from string import Template

from tools.rig.config import COREDNS_IMAGE, STORAGE_NAMESPACE
from tools.rig.network import Network

TEMPLATE = Path(__file__).with_name("addons.yaml")


def addons(network: Network) -> str:
    """Return the objects as YAML."""
    words = {"dns_ip": network.dns_ip, "coredns_image": COREDNS_IMAGE, "storage_namespace": STORAGE_NAMESPACE}
    return Template(TEMPLATE.read_text()).substitute(words)
