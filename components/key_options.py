"""Options before a key in authorized_keys. Those are accepted that only narrow what the key opens; see docs/keys.md."""

import datetime as dt
import re
from collections.abc import Callable, Iterator

QUOTED = r'"((?:\\"|[^"\\]|\\(?!"))*)"'
r"""What sshd takes as one value: everything to the next quote, but for ``\"``."""

OPTION = re.compile(rf"([A-Za-z0-9-]+)(?:={QUOTED})?(,|$)")

FLAGS = frozenset(
    {
        "restrict",
        "no-port-forwarding",
        "no-agent-forwarding",
        "no-x11-forwarding",
        "no-pty",
        "no-user-rc",
        "port-forwarding",
        "agent-forwarding",
        "pty",
        "verify-required",
    }
)
"""Without a value. The three without `no-` give back what `restrict` took, and no more than every key has."""

REFUSED = {
    "from": "sees 127.0.0.1 for everybody, since all come through the tunnel, so it would shut out all or nobody; "
    "limit sources with gpu-runtime:platform.ssh.service.sourceRanges",
    "cert-authority": "would make whoever holds this key sign logins of others; name it in ssh.userCa",
    "principals": "belongs to a CA; write ssh.userCa with its keys and principals",
    "environment": "is ignored by our sshd; set the unit's `env`",
    "tunnel": "needs network devices, which a unit cannot make; forward ports with -L, -R or -D",
    "no-touch-required": "would let a security key sign without its owner's touch; make a key that asks for it",
    "x11-forwarding": "is off for every key",
    "user-rc": "is off for every key",
}
"""What sshd knows and we refuse, each with its reason."""

MOMENTS = {9: "%Y%m%dZ", 13: "%Y%m%d%H%MZ", 15: "%Y%m%d%H%M%SZ"}
"""By length. In UTC only: sshd takes a time without Z in the zone of its environment, which is the unit's `TZ`."""

PORT = r"(?:[1-9]\d{0,4}|\*)"
HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]|\*)"
TARGET = re.compile(rf"{HOST}:{PORT}")
LISTENED = re.compile(rf"(?:{HOST}:)?{PORT}")


def moment(value: str) -> dt.datetime | None:
    """Read a time as sshd's ``expiry-time`` has it, in UTC; None when it is none."""
    form = MOMENTS.get(len(value))
    try:
        return dt.datetime.strptime(value, form).replace(tzinfo=dt.UTC) if form else None
    except ValueError:
        return None


VALUED: dict[str, tuple[Callable[[str], object], str]] = {
    "command": (str.strip, "must be a command"),
    "expiry-time": (moment, "must be a time in UTC such as 20301231Z or 203012312359Z"),
    "permitopen": (TARGET.fullmatch, "must be host:port such as localhost:8888"),
    "permitlisten": (LISTENED.fullmatch, "must be a port or host:port such as localhost:8888"),
}
"""With a value: how to read it, and what it must be."""

ONCE = frozenset({"command"})
"""sshd refuses a line that says one of these twice."""


def read(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield name, in lower case, and value of each option of *text*, as sshd reads them.

    Raises ValueError where sshd would refuse the line.
    """
    at = 0
    while found := OPTION.match(text, at):
        yield found[1].lower(), found[2]
        at = found.end()
        if at == len(text) and not found[3]:
            return
    raise ValueError('has malformed options; write name or name="value", with a comma and no blank between them')


def check(text: str, *, hardware: bool) -> None:
    """Refuse options that are malformed, unknown, or more than a narrowing; *hardware*: the key is on a security key.

    Raises ValueError with advice.
    """
    options = list(read(text))
    names = [name for name, _ in options]
    for name, value in options:
        _one(name, value)
    if repeated := next((name for name in names if name in ONCE and names.count(name) > 1), None):
        raise ValueError(f"says {repeated} twice; say it once")
    if "verify-required" in names and not hardware:
        raise ValueError("says verify-required, which only a security key (sk-) can do; leave it out")
    if "command" in names and names[0] != "restrict":
        raise ValueError('has a command, but leaves forwarding and terminals open; begin with restrict,command="..."')


def expiry(text: str) -> dt.datetime | None:
    """Give the earliest ``expiry-time`` of options that were checked, which is the one that sshd goes by."""
    said = (moment(value) for name, value in read(text) if name == "expiry-time" and value)
    return min(filter(None, said), default=None)


def _one(name: str, value: str | None) -> None:
    if name in REFUSED:
        raise ValueError(f"has option {name}, which {REFUSED[name]}")
    if name in VALUED:
        valid, advice = VALUED[name]
        if value is None or not valid(value):
            raise ValueError(f'has option {name}, whose value {advice}, in quotes: {name}="..."')
    elif name not in FLAGS:
        known = ", ".join(sorted(FLAGS | set(VALUED)))
        raise ValueError(f"has option {name[:40]}, which is none of: {known}")
    elif value is not None:
        raise ValueError(f"has option {name} with a value, which it does not take")
