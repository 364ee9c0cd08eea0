"""Who reads the platform's metrics: a Prometheus of the cluster's own, which the stack file names."""

from typing import Annotated

from pydantic import Field

from components.dns import NAMESPACE, LabelKey, LabelValue
from components.flows import Flow, Pods, tcp
from components.model import Model, matching

WHY = "read metrics (`platform.metrics`)"


class MetricsSpec(Model):
    """Where the pods that read metrics are."""

    namespace: Annotated[str, matching(NAMESPACE, "must be a namespace such as monitoring")]
    selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)]
    """Labels of those pods: no other of that namespace comes in."""


def metrics_flows(readers: MetricsSpec | None, target: Pods, port: int) -> list[Flow]:
    """Give the row that lets *readers* ask *target* at *port*; none where nobody is named."""
    if readers is None:
        return []
    pods = Pods("metrics", "Prometheus", readers.namespace, {"matchLabels": dict(readers.selector)})
    return [Flow(pods, target, tcp(port), WHY)]
