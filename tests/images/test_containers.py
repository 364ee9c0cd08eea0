"""The containers of these tests themselves."""

from contextlib import suppress
from pathlib import Path

from tests.images.containers import Pod, until


def test_nothing_of_a_container_is_left(pod: Pod) -> None:
    """A container's processes end with the test, although they gave up root, and daemons among them their parent."""
    with pod.main("/.gpu-runtime/bin/busybox", "sh", "-c", "(setsid sleep 600 &); exec sleep 600") as running:
        first = Path(f"/proc/{running.namespaces.pid}/task/{running.namespaces.pid}/children").read_text().strip()
        space = Path(f"/proc/{first}/ns/pid").readlink()
    until(lambda: space not in _spaces())


def _spaces() -> set[Path]:
    """Name the pid namespaces in which anything runs."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, PermissionError):  # it ended meanwhile; it is not one of ours
            found.add((process / "ns/pid").readlink())
    return found
