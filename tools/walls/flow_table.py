"""The table of flows for people: one line for each kind of connection that a stack permits."""

from collections.abc import Iterable

from components import names
from components.flows import Flow, Pods

HEAD = ("| from | to | ports | why |", "|---|---|---|---|")


def flow_table(flows: Iterable[Flow]) -> str:
    """Write *flows* as a Markdown table; rows of many tenants and units that read alike are one."""
    rows = dict.fromkeys(_row(flow) for flow in flows)
    return "\n".join((*HEAD, *rows, ""))


def _row(flow: Flow) -> str:
    ports = ", ".join(f"{port.protocol} {port.number}" for port in flow.ports) or "every port"
    return f"| {flow.source.words} | {flow.target.words}{_near(flow)} | {ports} | {flow.why} |"


def _near(flow: Flow) -> str:
    """Say of pods of one tenant that they are: the same words mean another tenant's elsewhere."""
    ends = [end.namespace for end in (flow.source, flow.target) if isinstance(end, Pods)]
    same = len(ends) == 2 and ends[0] == ends[1] != names.PLATFORM_NAMESPACE  # noqa: PLR2004 - a flow has two ends
    return " of the same tenant" if same else ""
