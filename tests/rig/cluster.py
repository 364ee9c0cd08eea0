"""A rig for tests, and pods on it that knock at doors from their first instruction on."""

import json
import platform
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.rig import Rig, oci
from tools.toolchain import ensure

SOURCE = Path(__file__).with_name("knock.c")
PATIENCE = 90.0
"""Seconds that anything here gets; twenty pods at once take ten."""

Door = tuple[str, int]


@dataclass(frozen=True)
class Knocks:
    """What one pod saw at one door: how often it tried, how often it got in, and when first and last, in ms."""

    tries: int
    reached: int
    first: float
    last: float


class Cluster:
    """A running rig with the image of knock.c."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self._kubectl = [str(ensure("kubectl")["kubectl"]), f"--kubeconfig={rig.kubeconfig}"]
        self.image = self._loaded(folder)

    def kubectl(self, *argv: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints."""
        done = subprocess.run([*self._kubectl, *argv], input=stdin, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "--filename=-", stdin="\n---\n".join(map(json.dumps, objects)))

    def namespace(self, name: str, *, denied: bool = False) -> str:
        """Make a namespace, *denied*: with a policy that forbids everything, which kube-router knows by the end."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if denied:
            self.policy(name, "default-deny", podSelector={}, policyTypes=["Ingress", "Egress"])
            time.sleep(1)
        return name

    def policy(self, namespace: str, name: str, **spec: Any) -> None:
        """Make a NetworkPolicy."""
        meta = {"name": name, "namespace": namespace}
        self.apply({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec})

    def start(self, namespace: str, names: Sequence[str], *argv: str, **container: Any) -> None:
        """Start pods that run knock with *argv*."""
        self.apply(*(self.pod(namespace, name, *argv, **container) for name in names))

    def pod(self, namespace: str, name: str, *argv: str, **container: Any) -> dict[str, Any]:
        """Return a pod that runs knock with *argv*."""
        body = {"name": "knock", "image": self.image, "imagePullPolicy": "Never", "args": [*argv], **container}
        spec = {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [body],
        }
        meta = {"name": name, "namespace": namespace, "labels": {"app": name}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def ready(self, namespace: str, name: str) -> list[str]:
        """Return the addresses of a pod once it is ready."""
        wait = ["wait", "--for=condition=Ready", f"--timeout={PATIENCE:.0f}s"]
        self.kubectl(*wait, f"--namespace={namespace}", f"pod/{name}")
        return self.addresses(namespace, f"--selector=app={name}")

    def addresses(self, namespace: str, selector: str) -> list[str]:
        """Return the addresses of the pods that a selector finds."""
        path = "--output=jsonpath={.items[*].status.podIPs[*].ip}"
        return self.kubectl("get", "pods", f"--namespace={namespace}", selector, path).split()

    def service(self, namespace: str, name: str) -> None:
        """Make a Service for port 80 of a pod, in every family that the rig has."""
        spec = {"selector": {"app": name}, "ports": [{"port": 80}], "ipFamilyPolicy": "PreferDualStack"}
        self.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        )

    def services(self, namespace: str, name: str) -> list[str]:
        """Return the addresses of a Service."""
        path = "--output=jsonpath={.spec.clusterIPs[*]}"
        return self.kubectl("get", "service", f"--namespace={namespace}", name, path).split()

    def knocks(self, namespace: str, names: Sequence[str]) -> dict[Door, list[Knocks]]:
        """Wait until pods have ended, and return what each saw at each door."""
        pods = [f"pod/{name}" for name in names]
        ended = "--for=jsonpath={.status.phase}=Succeeded"
        self.kubectl("wait", ended, f"--timeout={PATIENCE:.0f}s", f"--namespace={namespace}", *pods)
        found = defaultdict(list)
        for pod in pods:
            for line in self.kubectl("logs", f"--namespace={namespace}", pod).splitlines():
                address, port, tries, reached, first, last = line.split()
                found[address, int(port)].append(Knocks(int(tries), int(reached), float(first), float(last)))
        return dict(found)

    def open_doors(self, namespace: str, name: str, doors: Sequence[Door]) -> set[Door]:
        """Return the doors that open to a pod that runs, now."""
        asked = ["exec", f"--namespace={namespace}", name, "--", "/knock", *knock(1, doors)]
        lines = (line.split() for line in self.kubectl(*asked).splitlines())
        return {(address, int(port)) for address, port, _, reached, *_ in lines if int(reached)}

    def remove(self, *namespaces: str) -> None:
        """Remove namespaces with their pods."""
        self.kubectl("delete", "namespace", "--ignore-not-found", *namespaces)

    def _loaded(self, folder: Path) -> str:
        program, archive = folder / "knock", folder / "knock.tar"
        subprocess.run(["gcc", "-Os", "-static", "-s", "-Wall", "-Werror", "-o", program, SOURCE], check=True)
        image = oci.Image("localhost/rig/knock:1", ["/knock"], {"knock": (program.read_bytes(), 0o755)})
        oci.write(archive, platform.machine(), [image])
        return self.rig.load(archive)[0]


def knock(seconds: float, doors: Sequence[Door]) -> list[str]:
    """Return the arguments for knock.c that try *doors* for so long."""
    return [str(seconds), *(word for address, port in doors for word in (address, str(port)))]
