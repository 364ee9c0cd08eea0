"""What is kept of a rig."""

import fcntl
import os
import threading
import time
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from tools.rig import Network, RigError
from tools.rig.state import Folder, Record, checked_name, locked

RECORD = Record(Network(IPv4Network("10.140.0.0/16")), (Path("/sys/fs/cgroup/pids/gpu-runtime-rig-x"),))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return the folder of a rig that is not there yet."""
    path = tmp_path / "gpu-runtime" / "rigs" / "x"
    path.mkdir(parents=True)
    return Folder(path)


@pytest.mark.parametrize("name", ["a", "local", "e2e-1", "abcdefghijk"])
def test_names(name: str) -> None:
    """A short DNS-like name is taken as it is."""
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "a_b", "a-", "a--b", "../x", "abcdefghijkl", "a\n"])
def test_odd_names_are_refused(name: str) -> None:
    """Anything else is refused with what would be right, and never repaired."""
    with pytest.raises(RigError, match="lower-case"):
        checked_name(name)


@pytest.mark.parametrize("ipv6", [True, False])
def test_record_comes_back(folder: Folder, ipv6: bool) -> None:  # noqa: FBT001
    """A later command reads what an earlier one chose."""
    record = replace(RECORD, network=replace(RECORD.network, ipv6=ipv6))
    assert folder.read() is None

    folder.write(record)

    assert folder.read() == record


def test_a_record_from_before_ipv6_has_none(folder: Folder) -> None:
    """A rig that was made without IPv6 goes on without it."""
    (folder.path / "rig.json").write_text('{"format": 1, "network": "10.140.0.0/16", "cgroups": []}')

    assert folder.read() == Record(Network(IPv4Network("10.140.0.0/16"), ipv6=False), ())


@pytest.mark.parametrize("text", ["", "{", '{"format": 99}'])
def test_an_unsound_record_is_refused_but_never_in_the_way_of_down(folder: Folder, text: str) -> None:
    """`up` must not guess addresses; `down` finds the rig by its name."""
    (folder.path / "rig.json").write_text(text)

    with pytest.raises(RigError, match=r"rig\.json"):
        folder.read()
    assert folder.read_if_sound() is None


def test_removal_leaves_no_empty_folders(folder: Folder) -> None:
    """The last rig takes the folders above with it, a rig beside another does not."""
    (folder.path.parent / "other").mkdir()
    folder.make()
    folder.remove()
    assert [path.name for path in folder.path.parent.iterdir()] == ["other"]

    other = Folder(folder.path.parent / "other")
    other.remove()
    assert not other.path.parent.parent.exists()


def test_logs_of_the_run_before_are_kept(folder: Folder) -> None:
    """Why a rig ended can be read after it was started again."""
    folder.make()
    (folder.logs / "etcd.log").write_text("reason")
    folder.make()

    assert not (folder.logs / "etcd.log").exists()
    assert (folder.logs.with_name("rig.previous") / "etcd.log").read_text() == "reason"


def test_a_kept_cluster_forgets_its_last_run(folder: Folder) -> None:
    """Leased addresses and sockets of an ended run would mislead the next one; data stays."""
    folder.make()
    gone = [folder.var / "lib/cni/networks/rig/10.0.0.2", folder.var / "lib/kubelet/device-plugins/kubelet.sock"]
    kept = folder.var / "lib/etcd/member/wal"
    for file in (*gone, kept):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    folder.forget_run()

    assert not any(file.exists() for file in gone)
    assert folder.holds_cluster


def test_one_command_at_a_time(tmp_path: Path) -> None:
    """A second command waits for the first; what it locks is the folder of now, not one removed meanwhile."""
    path, order = tmp_path / "x", []

    def second() -> None:
        with locked(path, "x"):
            order.append("second")
            with pytest.raises(BlockingIOError):
                fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)

    with locked(path, "x"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)  # long enough for the second to come
        order.append("first")
        path.rmdir()
        path.mkdir()
    thread.join()

    assert order == ["first", "second"]
