"""Stand before iptables-restore and ip6tables-restore on kube-router's PATH, and tell the guard whom its rules judge.

A script with the standard library alone, like supervisor.py. kube-router hands over all its rules at every sync, and
each sync reads the pods twice: one that comes in between has rules then, but not yet those of its policies. So a pod
that no policy seems to select counts as judged when a second sync says the same; for that one is asked for.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

SEEN = Path("/run/rig/seen")
"""With the family's number behind: the addresses in the rules of the sync before."""

LOG = "/var/log/rig/rig-sync.log"
PKI = "/var/lib/rig/pki"
SECONDS = 10.0
KUBECONFIG = Path("/var/lib/rig/kube-router.kubeconfig")
POLICY = "/apis/networking.k8s.io/v1/namespaces/kube-system/networkpolicies/rig-sync"
"""kube-router syncs whenever any NetworkPolicy changes; this one selects nothing and serves nothing else."""

POD = re.compile(r"^-A KUBE-ROUTER-INPUT .*-s ([0-9a-f.:]+)(?:/\d+)? .*-j (KUBE-POD-FW-\w+)", re.MULTILINE)
UNSELECTED = re.compile(r"^-[AI] (KUBE-POD-FW-\w+) .*-j KUBE-NWPLCY-DEFAULT", re.MULTILINE)
"""What the chain of a pod has for each direction in which no policy selects it."""


def pods(rules: str) -> dict[str, bool]:
    """Return the addresses of pods that have rules, and whether policies select each in both directions."""
    unselected = set(UNSELECTED.findall(rules))
    return {address: chain not in unselected for address, chain in POD.findall(rules)}


def named(rules: str, family: str) -> str:
    """Return *rules* with the names that IPv6's IP sets have: kube-router 2.1.0 makes them so, and forgets it here."""
    return rules.replace("--match-set KUBE-", "--match-set inet6:KUBE-") if family == "6" else rules


def judged(found: dict[str, bool], seen: set[str]) -> set[str]:
    """Return the addresses whose rules are final, when *seen* had rules before."""
    return {address for address, selected in found.items() if selected or address in seen}


def elements(family: str, addresses: set[str]) -> str:
    """Return the text for nft that makes *addresses* the judged ones of a family, 4 or 6."""
    name = f"inet rig-guard judged{family}"
    return f"flush set {name}\n" + (f"add element {name} {{ {', '.join(sorted(addresses))} }}\n" if addresses else "")


def main(program: str, arguments: list[str]) -> int:
    """Restore what comes in with the real *program*, then tell the guard; one that is not told lets nobody in."""
    os.environ["PATH"] = os.environ["PATH"].partition(":")[2]  # the first folder is the one that holds this
    if "--help" in arguments:
        os.execvp(program, [program, *arguments])  # noqa: S606  # without a shell is how it is meant
    family = "6" if program.startswith("ip6") else "4"
    rules = named(sys.stdin.read(), family)
    found, seen = pods(rules), SEEN.with_name(SEEN.name + family)
    final = judged(found, set(seen.read_text().split()) if seen.exists() else set())
    if family == "4" and found.keys() - final:  # every pod has one, and once is enough for both
        _ask_again()
    done = subprocess.run([program, *arguments], input=rules, text=True, check=False)
    if done.returncode:
        return done.returncode
    seen.write_text("\n".join(found))
    return subprocess.run(["nft", "-f", "-"], input=elements(family, final), text=True, check=False).returncode


def _ask_again() -> None:
    """Have kube-router sync once more after this, from a process of its own: nobody is kept waiting."""
    if os.fork():
        return
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):  # kube-router waits for the end of these
        os.dup2(log, number)
    _change_policy()
    os._exit(0)


def _change_policy() -> None:
    import http.client  # noqa: PLC0415  # half of this program's time, which most runs can do without
    import ssl  # noqa: PLC0415

    server = json.loads(KUBECONFIG.read_text())["clusters"][0]["cluster"]["server"]
    context = ssl.create_default_context(cafile=f"{PKI}/ca.crt")
    context.load_cert_chain(f"{PKI}/kube-router.crt", f"{PKI}/kube-router.key")
    api = http.client.HTTPSConnection(server.removeprefix("https://"), context=context, timeout=SECONDS)
    patch = json.dumps({"metadata": {"annotations": {"rig/asked-at": str(time.time_ns())}}})
    api.request("PATCH", POLICY, patch, {"Content-Type": "application/merge-patch+json"})
    if (answer := api.getresponse()).status != http.client.OK:
        sys.stderr.write(f"{answer.status}: {answer.read().decode()}\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[0]).name, sys.argv[1:]))
