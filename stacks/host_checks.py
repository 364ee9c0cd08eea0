"""Problems of the names under which units are reached: the domain suffixes, and the host of each unit below one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from components import names
from components.unit_spec import UnitSpec
from stacks.problems import Problem

LONGEST_HOST = 253
"""Characters of a name in DNS: entrance, gate and tunnel client take no longer host."""

SUFFIXES = f"{names.PROJECT}:platform.ssh.domainSuffixes"

OF_ITSELF = {
    "localhost": "is the client's own machine",
    "cluster.local": "belongs to the cluster's own DNS",
}
"""Domains that mean something else to whoever asks, and never a unit."""


def suffix_problems(suffixes: Sequence[str]) -> Iterator[Problem]:
    """Yield what is wrong with the domain suffixes of the stack's own platform."""
    for suffix, count in Counter(suffixes).items():
        if count > 1:
            yield Problem("platform.ssh.domainSuffixes", f"{suffix!r} is named {count} times; once is enough")
    for index, suffix in enumerate(suffixes):
        if reason := _unfit(suffix):
            advice = "name a domain of yours such as ssh.example.com"
            yield Problem(f"platform.ssh.domainSuffixes.{index}", f"{suffix!r} {reason}; {advice}")


def _unfit(suffix: str) -> str:
    """Say why no unit can be below *suffix*; nothing where one can. What ends in a number is read as an address."""
    if suffix.rpartition(".")[2].isdigit():
        return "is an address, and nothing is below one"
    return next((why for domain, why in OF_ITSELF.items() if f".{suffix}".endswith(f".{domain}")), "")


def host_problems(
    tenant: str, namespace: str, units: Mapping[str, UnitSpec], suffixes: Sequence[str]
) -> Iterator[Problem]:
    """Yield what is wrong with the hosts of *tenant*'s units that are reached by SSH."""
    default = suffixes[0] if suffixes else ""
    hosts = {
        name: names.unit_host(unit.host or name, namespace, unit.domain_suffix or default)
        for name, unit in units.items()
        if unit.ssh
    }
    yield from _shared(f"tenants.{tenant}.units", hosts)
    for name, host in hosts.items():
        if len(host) > LONGEST_HOST:
            first = host.partition(".")[0]
            advice = f"a suffix of {SUFFIXES} that is {len(host) - LONGEST_HOST} shorter would do"
            yield Problem(
                f"tenants.{tenant}.units.{name}",
                f"its host {first}.{namespace}.<suffix> has {len(host)} characters; {LONGEST_HOST} fit DNS: {advice}",
            )


def _shared(path: str, hosts: Mapping[str, str]) -> Iterator[Problem]:
    for host, count in Counter(hosts.values()).items():
        if count > 1:
            who = ", ".join(sorted(name for name, wanted in hosts.items() if wanted == host))
            yield Problem(path, f"{who} all want the host {host}; set another `host` on one")
