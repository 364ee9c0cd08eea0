"""What a check found, and how all of it is shown."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

COLUMNS = 120
"""Width of the table; longer texts go on in the next line."""


class Status(StrEnum):
    """How bad it is."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One check's result: what was found, and what to do where it is not well."""

    check: str
    status: Status
    found: str
    advice: str = ""


def ok(check: str, found: str) -> Finding:
    """Give a finding with which all is well."""
    return Finding(check, Status.OK, found)


def warn(check: str, found: str, advice: str) -> Finding:
    """Give a finding that may cost somebody something, or that nobody could settle."""
    return Finding(check, Status.WARN, found, advice)


def fail(check: str, found: str, advice: str) -> Finding:
    """Give a finding with which the stack does not work, or its walls do not hold."""
    return Finding(check, Status.FAIL, found, advice)


def failed(findings: Sequence[Finding]) -> bool:
    """Say whether anything must be mended first."""
    return any(finding.status is Status.FAIL for finding in findings)


def table(findings: Sequence[Finding]) -> str:
    """Give a line for each finding and below it what to do, and a last line that counts."""
    width = max(len(finding.check) for finding in findings)
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    lines = [line for finding in findings for line in _lines(finding, width)]
    return "\n".join([*lines, ", ".join(f"{count} {status}" for status, count in counts.items())])


def _lines(finding: Finding, width: int) -> list[str]:
    head = f"{finding.status:<4}  {finding.check:<{width}}  "
    said = _wrapped(finding.found, head)
    return [*said, *_wrapped(finding.advice, f"{'':{len(head)}}-> ")] if finding.advice else said


def _wrapped(text: str, head: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False)


def as_json(findings: Sequence[Finding]) -> str:
    """Give one JSON object per line: check, status, found, advice."""
    return "\n".join(json.dumps(asdict(finding)) for finding in findings)
