"""Who may log in: what a unit's keys show together with the CAs around it."""

import datetime as dt
from collections.abc import Iterator

from components.names import PROJECT
from components.public_keys import expiry
from components.unit_spec import UnitSpec
from stacks.problems import Problem
from stacks.schema import StackConfig


def key_problems(path: str, unit: UnitSpec, *, default_ca: bool) -> Iterator[Problem]:
    """Refuse an entrance without anybody who may use it; *default_ca*: the tenant or the stack names a CA."""
    if unit.ssh and not (unit.ssh.authorized_keys or unit.ssh.user_ca or default_ca):
        advice = "write one or a `userCa` (of the unit, the tenant or the stack), or leave `ssh` out"
        yield Problem(f"{path}.ssh.authorizedKeys", f"must have at least one entry: nobody could log in; {advice}")


def key_cautions(config: StackConfig) -> Iterator[str]:
    """Yield which keys have expired. They open nothing; a refusal would hold up all others until they are gone."""
    for tenant, name, unit in ((t, n, u) for t, said in config.tenants.items() for n, u in said.units.items()):
        for at, line in enumerate(unit.ssh.authorized_keys if unit.ssh else ()):
            if (end := expiry(line)) and end <= dt.datetime.now(dt.UTC):
                where = f"{PROJECT}:tenants.{tenant}.units.{name}.ssh.authorizedKeys.{at}"
                yield f"{where}: expired on {end:%Y-%m-%d %H:%M} UTC and opens nothing; remove it"
