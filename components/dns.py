"""Where cluster DNS answers."""

import re
from typing import Annotated

from pydantic import Field

from components.model import IpAddress, Model, Port, matching

DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(rf"((?=.{{1,253}}/){DOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

LabelKey = Annotated[str, matching(LABEL_KEY, "must be a label's key such as k8s-app")]
LabelValue = Annotated[str, matching(LABEL_VALUE, "must be a label's value: letters, digits, '.', '_' and '-'")]


class DnsSpec(Model):
    """Where the pods that answer cluster DNS are, and on which ports of theirs."""

    namespace: Annotated[str, matching(NAMESPACE, "must be a namespace such as kube-system")] = "kube-system"
    selector: dict[LabelKey, LabelValue] = Field(default={"k8s-app": "kube-dns"}, min_length=1)
    ports: tuple[Port, ...] = Field(default=(53,), min_length=1)
    """The pods' own: a policy sees a packet after the Service turned it round."""
    addresses: tuple[IpAddress, ...] = ()
    """Of NodeLocal DNS, and of the DNS Service where the network plugin judges before translation."""
