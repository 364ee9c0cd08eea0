"""A storage's browser in a container of its own, and people who ask it for files."""

import http.client
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from components import names
from components.browser import DATA, dufs_arguments
from tests.images.containers import GROUP, UID, Pod, Running, until
from tests.processes import has_open
from tests.spaces import Answer, Site

PREFIX = names.browser_path("lab-a", "dataset")
MIB = 1 << 20
MEMORY = 64 * MIB
"""An eighth of what the pod may take: whatever the volume holds, dufs stays well below its limit."""


@dataclass
class Browser:
    """A running dufs and the volume that it shows."""

    running: Running
    volume: Path

    @property
    def site(self) -> Site:
        """Give where it answers."""
        return Site(Path(f"/proc/{self.running.namespaces.pid}/ns/net"), "127.0.0.1", names.BROWSER_PORT)

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None) -> Answer:
        """Ask for *path* below the storage's own, quoted already."""
        return self.site.ask(f"{PREFIX}{path}", method, headers, body)

    def names(self, path: str) -> list[str]:
        """List a folder, or what a search finds."""
        return [item["name"] for item in json.loads(self.ask(path).body)["paths"]]

    def file(self, name: str) -> Answer:
        """Ask for the file called *name* in the volume's root."""
        return self.ask(f"/{quote(name)}")

    @property
    def healthy(self) -> bool:
        """Ask as the kubelet does."""
        try:
            return self.ask("/__dufs__/health").status == http.client.OK
        except OSError:
            return False

    def holds(self, file: Path) -> bool:
        """Say whether dufs has *file* open."""
        return has_open(self.running.process, file)

    @property
    def memory(self) -> int:
        """Give the most bytes of memory that dufs ever held."""
        status = Path(f"/proc/{self.running.process}/status").read_text()
        (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kibibytes) * 1024


@contextmanager
def browsing(pod: Pod, *, upload: bool = False) -> Iterator[Browser]:
    """Run dufs over the pod's workspace as the browser's own pod does."""
    mounts = {DATA: (pod.path("workspace"), "rw" if upload else "ro")}
    argv = ["/usr/bin/dufs", *dufs_arguments(PREFIX, upload=upload)]
    with pod.started(argv, mounts) as running:
        browser = Browser(running, pod.path("workspace"))
        until(lambda: running.namespaces.poll() is not None or browser.healthy)
        assert running.namespaces.poll() is None, running.namespaces.communicate()
        yield browser


def owned(path: Path) -> Path:
    """Give *path* to the storage's uid, as what a unit wrote is."""
    os.chown(path, UID, GROUP, follow_symlinks=False)
    return path


def write(pod: Pod, name: str, content: bytes) -> Path:
    """Put a file into the volume."""
    file = pod.path("workspace") / name
    if not file.parent.is_dir():
        file.parent.mkdir(parents=True)
        owned(file.parent)
    file.write_bytes(content)
    return owned(file)


def sparse(pod: Pod, name: str, size: int) -> Path:
    """Put a file of *size* bytes into the volume that takes no room, but for its last bytes."""
    file = write(pod, name, b"")
    with file.open("r+b") as content:
        content.truncate(size)
        content.seek(size - 4)
        content.write(b"last")
    return file
