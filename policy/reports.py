"""Say what was found: as text for people, as lines of JSON for programs, as SARIF for code hosts."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from policy.check import Check, Severity
from policy.law import Violation
from policy.levels import Level
from policy.reading import Document

SARIF_LEVELS: Final = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
}


class Report(NamedTuple):
    """A violation, the document it is in, and what follows from it."""

    violation: Violation
    document: Document
    level: Level


Writer = Callable[[Sequence[Report], Sequence[Check], int], str]


def as_text(reports: Sequence[Report], _: Sequence[Check], judged: int) -> str:
    """Return one line for each violation, and a sum."""
    lines = [_line(report) for report in reports]
    mandatory = Counter(report.level for report in reports)[Level.MANDATORY]
    advice = f", {len(reports) - mandatory} advisory" if len(reports) > mandatory else ""
    return "".join(f"{line}\n" for line in (*lines, f"{judged} objects judged: {mandatory} violations{advice}"))


def as_json(reports: Sequence[Report], _: Sequence[Check], __: int) -> str:
    """Return one JSON object a line; nothing when nothing was found."""
    return "".join(f"{json.dumps(_record(report))}\n" for report in reports)


def as_sarif(reports: Sequence[Report], checks: Sequence[Check], _: int) -> str:
    """Return a SARIF 2.1.0 log."""
    driver = {"name": "gpu-runtime-law", "rules": [_rule(check) for check in checks]}
    run = {"tool": {"driver": driver}, "results": [_result(report) for report in reports]}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return f"{json.dumps(log, indent=2)}\n"


def catalogue(checks: Sequence[Check]) -> str:
    """Return what the checks are."""
    return "".join(f"{check.ID:22} {check.SEVERITY:9} {check.DESCRIPTION}\n" for check in checks)


def _line(report: Report) -> str:
    document, advisory = report.document, " (advisory)" if report.level is Level.ADVISORY else ""
    return f"{document.file}:{document.line}: {report.violation.severity}{advisory}: {report.violation.text}"


def _record(report: Report) -> dict[str, Any]:
    return {
        **report.violation._asdict(),
        "file": report.document.file,
        "document": report.document.number,
        "level": report.level,
    }


def _rule(check: Check) -> dict[str, Any]:
    return {
        "id": check.ID,
        "shortDescription": {"text": check.DESCRIPTION},
        "help": {"text": check.REMEDIATION},
        "defaultConfiguration": {"level": SARIF_LEVELS[check.SEVERITY]},
        "properties": {"severity": check.SEVERITY, "tags": sorted(check.FRAMEWORKS)},
    }


def _result(report: Report) -> dict[str, Any]:
    violation, document = report.violation, report.document
    place = {"artifactLocation": {"uri": document.file}, "region": {"startLine": document.line}}
    owner = "/".join(filter(None, (violation.kind, violation.namespace, violation.name)))
    return {
        "ruleId": violation.check,
        "level": SARIF_LEVELS[violation.severity] if report.level is Level.MANDATORY else "note",
        "message": {"text": violation.message},
        "locations": [
            {"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": f"{owner}#{violation.path}"}]},
        ],
    }


WRITERS: Final[Mapping[str, Writer]] = {"text": as_text, "json": as_json, "sarif": as_sarif}
