"""Where cluster DNS answers."""

from pydantic import Field

from components.model import IpAddress, Model, Port


class DnsSpec(Model):
    """Where the pods that answer cluster DNS are, and on which ports of theirs."""

    namespace: str = "kube-system"
    selector: dict[str, str] = Field(default={"k8s-app": "kube-dns"}, min_length=1)
    ports: tuple[Port, ...] = Field(default=(53,), min_length=1)
    """The pods' own: a policy sees a packet after the Service turned it round."""
    addresses: tuple[IpAddress, ...] = ()
    """Of NodeLocal DNS, and of the DNS Service where the network plugin judges before translation."""
