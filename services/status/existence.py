"""Whether a unit that is announced lets anybody in: the tier may be shut, and what gate and sshd know it by gone.

A tunnel client that is logged in never hears of a session that the gate refuses, nor of one that sshd does.
"""

from collections.abc import Iterable

from status.objects import Object, Seen
from status.tier import shut

OWNER_LABEL = "gpu-runtime/owner"
HOST_ANNOTATION = "gpu-runtime/host"
KEYS_SUFFIX, KEYS_FILE, CA_FILE = "-keys", "authorized_keys", "user_ca_keys"
"""Labels and names as the program writes them; a test holds both to the same words."""

BESIDE = frozenset({"NoService", "OtherHost", "HostTwice", "NoKeys"})
"""Reasons that a unit's Service or its list of keys gives."""

AGAIN = "`make up REFRESH=1` brings it back"


def turned_away(seen: Seen, host: str) -> tuple[str, str] | None:
    """Say why nobody new gets into a unit that announces *host* (empty: not known): a reason and a sentence."""
    closed = shut(seen.tier) if seen.tier is not None else None
    return closed or _by_the_gate(seen, host) or _by_sshd(seen)


def _by_the_gate(seen: Seen, host: str) -> tuple[str, str] | None:
    """Judge the unit's Service as services/gate/view.py does; a test holds both to the same cases."""
    if seen.services is None:
        return None
    deployment, owned = seen.deployment or {}, [one for one in _living(seen.services) if _owner(one)]
    name = deployment["metadata"]["name"]
    own = next((one for one in owned if one["metadata"]["name"] == name), None)
    if own is None or _owner(own) != _owner(deployment):
        return "NoService", f"the gate refuses new logins: Service {name} of its stack is not there; {AGAIN}"
    said = _host(own)
    if not said or said != (host or said):
        told = f"Service {name} says host {said!r}, and the unit announces {host!r}"
        return "OtherHost", f"the gate refuses new logins: {told}; {AGAIN}"
    if twin := next((one["metadata"]["name"] for one in owned if one is not own and _host(one) == said), None):
        return "HostTwice", f"the gate refuses new logins: Service {twin} says its host, too; delete that Service"
    return None


def _by_sshd(seen: Seen) -> tuple[str, str] | None:
    if seen.keys is None:
        return None
    name = (seen.deployment or {})["metadata"]["name"] + KEYS_SUFFIX
    own = next((one for one in _living(seen.keys) if one["metadata"]["name"] == name), None)
    if own is None:
        return "NoKeys", f"no key opens it once its node has seen that ConfigMap {name} is not there; {AGAIN}"
    files = own.get("data") or {}
    if _blank(files.get(KEYS_FILE)) and _blank(files.get(CA_FILE)):
        return "NoKeys", f"no key opens it once its node has seen that ConfigMap {name} has neither key nor CA; {AGAIN}"
    return None


def _blank(listed: object) -> bool:
    """Say whether a list of keys has nothing that sshd would read: the stack file always has a key or a CA."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in str(listed or "").splitlines())


def _owner(one: Object) -> str:
    return str((one["metadata"].get("labels") or {}).get(OWNER_LABEL) or "")


def _host(service: Object) -> str:
    return str((service["metadata"].get("annotations") or {}).get(HOST_ANNOTATION) or "")


def _living(objects: Iterable[Object]) -> list[Object]:
    return [one for one in objects if not one["metadata"].get("deletionTimestamp")]
