"""What the program itself would refuse or warn of: addresses, DNS, the admin tier, and whose the names are."""

from collections.abc import Callable, Iterable, Iterator

from components.names import PROJECT
from stacks.ownership import foreign_problems, refusals, warnings
from stacks.problems import Problem
from stacks.resolve import Stack
from tools.doctor.facts import Facts
from tools.doctor.findings import Finding, fail, ok, warn

CHECKS = {
    "cluster.dns": "cluster DNS",
    "cluster.adminTier": "admin tier",
    "cluster": "addresses",
    "tenants": "names",
    "platform": "names",
}
"""Beginnings of the paths of problems to the checks that they belong to; the first that fits counts."""


def site(stack: Stack, facts: Facts, foreign: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Give the program's own refusals as failures and its warnings as such; what nobody spoke of is well."""
    problems = [*foreign_problems(stack, foreign), *refusals(stack, facts.view)]
    bad = [_told(fail, problem) for problem in problems]
    odd = [_told(warn, problem) for problem in warnings(stack, facts.view)]
    spoken = {finding.check for finding in (*bad, *odd)}
    yield from (ok(check, said) for check, said in _well(stack).items() if check not in spoken)
    yield from (*bad, *odd)


def _told(how: Callable[[str, str, str], Finding], problem: Problem) -> Finding:
    """Take the message apart at its semicolon: what is so, and what to do; else the place is what to do."""
    check = next(check for begin, check in CHECKS.items() if problem.path.startswith(begin))
    found, _, advice = problem.message.partition("; ")
    return how(check, found, advice or f"in the stack file: {PROJECT}:{problem.path}")


def _well(stack: Stack) -> dict[str, str]:
    dns = stack.config.cluster.dns
    selector = ", ".join(f"{key}={value}" for key, value in dns.selector.items())
    well = {
        "names": "no namespace or claim of these names is somebody else's",
        "addresses": "every address of the cluster that can be seen is blocked for tenants",
        "cluster DNS": f"pods {selector} in {dns.namespace} answer on ports that are open",
    }
    return {**well, "admin tier": "ClusterNetworkPolicy is served"} if stack.config.cluster.admin_tier else well
