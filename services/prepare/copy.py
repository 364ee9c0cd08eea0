"""Copy a volume with rsync, then see for ourselves that all of it is there."""

import subprocess
from pathlib import Path

from prepare.tally import Tally, compare, entries
from prepare.volume import SHOWN, PrepareError, readable, shown, workplace

OPTIONS = (
    *("--recursive", "--links", "--perms", "--times", "--hard-links", "--sparse", "--from0", "--files-from=-"),
    "--modify-window=-1",
)
"""No owners: the volume has one. No deletion: what units put beside the copy is theirs. The entries of the volume's
root go by name, since that root itself is the kubelet's, with its own rights and times. Times are compared to their
nanoseconds: rsync would take two of one second for the same, and leave a folder the time of its copying."""

ANEW = "--checksum"
"""Over what is there already: a unit may have changed a file of the copy and kept its size and time."""

CHANGED = frozenset({23, 24})
"""rsync's exit codes for files that could not be read or were gone when their turn came."""


def copy(rsync: str, source: Path, target: Path) -> Tally:
    """Copy what *source* has into *target*; files that are there with the same content are not copied again.

    Raises PrepareError when anything is missing after it.
    """
    half = workplace(target, "half", fresh=True)
    names = entries(source)
    if names:
        again = [ANEW] if set(names) & set(entries(target)) else []
        _rsync([rsync, *OPTIONS, *again, f"--temp-dir={half}", f"{source}/", f"{target}/"], names)
    tally = compare(source, target)
    if tally.lacking or tally.copied != tally.size:
        some = ", ".join(shown(path) for path in tally.wrong[:SHOWN])
        more = f" and {tally.lacking - SHOWN} more" if tally.lacking > SHOWN else ""
        raise PrepareError(
            f"the copy is not what its source is: the source has {tally.text}, the copy {readable(tally.copied)} of "
            f"that; not the same: {some}{more}. Does a unit write to the source? Stop it, and run again"
        )
    half.rmdir()
    return tally


def _rsync(argv: list[str], names: list[str]) -> None:
    """Copy *names*, each as of the root: rsync would take one that begins with `#` or `;` for a comment."""
    listed = b"".join(b"/" + name.encode(errors="surrogateescape") + b"\0" for name in names)
    status = subprocess.run(argv, input=listed, check=False).returncode  # noqa: S603 - our own rsync
    if status:
        advice = "; the source changed meanwhile, or has what this storage's user may not read" * (status in CHANGED)
        raise PrepareError(f"rsync ended with {status}{advice}: its own words are above")
