"""Whether a rig enforces NetworkPolicies; `unenforced` shows a cluster whose network plugin ignores them.

kube-router is stopped, not ended: its end would end the rig. Rules before its own let everything pass, and the guard is
taken away. They are put back in the opposite order, so that nothing is ever open by mistake: the guard knows nobody at
first, and learns from kube-router's next sync.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess
from typing import Any, Protocol

from tools.rig import guard
from tools.rig.components import BIN
from tools.rig.config import INSIDE
from tools.rig.errors import RigError

SYNC_SECONDS = 60.0
"""A sync takes a tenth of a second; with hundreds of pods on a busy machine it may take a hundred times that."""

MARK = "rig-unenforced"
BYPASS = (("FORWARD",), ("INPUT", "-i", guard.BRIDGE), ("OUTPUT", "-o", guard.BRIDGE))
"""Where rules at the head of iptables' chains let pods' packets pass before kube-router's see them."""

IPTABLES = ("iptables", "ip6tables")

FIND = f'for p in /proc/[0-9]*; do [ "$(readlink $p/exe)" = {BIN}/kube-router ] && pid=${{p#/proc/}}; done\n'
"""By the file it runs, which no container has."""

STOP = (
    FIND
    + """\
kill -STOP "$pid" || exit 1
for try in $(seq 100); do
  busy=
  for child in $(cat /proc/$pid/task/*/children); do
    case "$(cat /proc/$child/stat)" in *") Z "*) ;; *) busy=yes ;; esac
  done
  [ "$busy" ] || exit 0
  sleep 0.1
done
exit 1
"""
)
"""Stops kube-router and waits for programs that it began: iptables-restore would undo what comes next."""

CONTINUE = FIND + 'kill -CONT "$pid"\n'

LOOK = (
    FIND
    + f"""\
[ "$pid" ] || exit 0
case "$(cat /proc/$pid/stat)" in *") T "*) echo "kube-router is stopped" ;; esac
nft list table inet {guard.TABLE} >/dev/null 2>&1 || echo "the guard is away"
for program in {" ".join(IPTABLES)}; do
  $program -w 5 -S 2>/dev/null | grep -q {MARK} && echo "a rule of $program lets all pass"
done
exit 0
"""
)


class Enforcing(Protocol):
    """What is needed of a rig: run a command in its namespaces."""

    def exec(self, *argv: str, stdin: str | None = None, check: bool = True) -> CompletedProcess[str]:
        """Run *argv*; raise CalledProcessError when it fails."""


@contextmanager
def unenforced(rig: Enforcing) -> Iterator[None]:
    """Have *rig* ignore every NetworkPolicy for a while; afterwards all is enforced again, for new pods too.

    Killed in between, it leaves a rig that `up` and `status` call sick; `up` puts it right. Raises RigError.
    """
    try:
        if rig.exec("sh", "-c", STOP, check=False).returncode:
            raise RigError("kube-router could not be stopped: is the rig running?")
        for program in IPTABLES:
            for chain, *where in BYPASS:
                rig.exec(program, "-w", "5", "-I", chain, "1", *_rule(where), check=program == "iptables")
        rig.exec("nft", "delete", "table", "inet", guard.TABLE)
        yield
    finally:
        put_back(rig)


def missing(rig: Enforcing) -> list[str]:
    """Return in words why *rig* does not enforce NetworkPolicies; nothing while kube-router has not begun."""
    return rig.exec("sh", "-c", LOOK).stdout.splitlines()


def put_back(rig: Enforcing) -> None:
    """Have *rig* enforce NetworkPolicies whatever state it is in, and wait until it does; raise RigError."""
    fresh = f"table inet {guard.TABLE} {{ }}\ndelete table inet {guard.TABLE}\n"
    rig.exec("nft", "-f", "-", stdin=fresh + guard.rules())
    for program in IPTABLES:
        for chain, *where in BYPASS:
            while not rig.exec(program, "-w", "5", "-D", chain, *_rule(where), check=False).returncode:
                pass
    rig.exec("sh", "-c", CONTINUE, check=False)
    if found := missing(rig):
        raise RigError(f"NetworkPolicies are not enforced again: {', '.join(found)}; take the rig down and up again")
    settle(rig)


def settle(rig: Enforcing) -> None:
    """Wait until *rig* enforces every policy that exists now, on every pod that has an address now; raise RigError."""
    port = random.randrange(1, 65536)  # noqa: S311  # a number that the rules do not have yet, no secret
    spec = {"spec": {"ingress": [{"ports": [{"port": port}]}]}}
    _kubectl(rig, "patch", "networkpolicy", "rig-sync", "-n", "kube-system", "--type=merge", f"-p={json.dumps(spec)}")
    _wait(lambda: f"--dport {port} " in _saved(rig), "kube-router does not sync")
    pods = {address for pod in _pods(rig) for address in addresses(pod)}
    _wait(lambda: pods <= _judged(rig), "the guard does not let all pods talk")


def addresses(pod: dict[str, Any]) -> set[str]:
    """Return the addresses of a Pod that kube-router judges: none of one that has ended or is the node's."""
    status = pod.get("status", {})
    if pod["spec"].get("hostNetwork") or status.get("phase") in {"Succeeded", "Failed"}:
        return set()
    return {one["ip"] for one in status.get("podIPs", ())}


def _pods(rig: Enforcing) -> list[dict[str, Any]]:
    return list(json.loads(_kubectl(rig, "get", "pods", "--all-namespaces", "--output=json"))["items"])


def _judged(rig: Enforcing) -> set[str]:
    found = json.loads(rig.exec("nft", "--json", "list", "sets", "inet").stdout)["nftables"]
    sets = [item["set"] for item in found if item.get("set", {}).get("table") == guard.TABLE]
    return {address for one in sets for address in one.get("elem", ())}


def _saved(rig: Enforcing) -> str:
    lines = rig.exec("iptables-save", "-t", "filter").stdout.splitlines()
    return "\n".join(line for line in lines if "rig-sync" in line)


def _rule(where: list[str]) -> list[str]:
    return [*where, "-m", "comment", "--comment", MARK, "-j", "ACCEPT"]


def _kubectl(rig: Enforcing, *argv: str) -> str:
    done = rig.exec(f"{BIN}/kubectl", f"--kubeconfig={INSIDE}/admin.kubeconfig", *argv, check=False)
    if done.returncode:
        raise RigError(f"the rig's API server refuses `kubectl {argv[0]}`: {done.stderr.strip()}")
    return done.stdout


def _wait(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SYNC_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise RigError(f"{otherwise} within {SYNC_SECONDS:.0f} s; take the rig down and up again")
        time.sleep(0.1)
