"""What of a unit's audit log reaches the operator, whatever a user makes of that log."""

import json
import os
from pathlib import Path

import pytest
from tunnel.allowance import LINES_A_MINUTE, Allowance
from tunnel.audit import AuditLog, parsed, pass_on

START = (
    "2026-11-21T18:00:00Z session-start session=12 user=alice port=4242 type=ssh-ed25519-cert-v01@openssh.com "
    "key=SHA256:abc/+x ca=SHA256:def serial=0 certificate=laptop"
)
END = "2026-11-21T18:01:00Z session-end session=12 user=alice port=4242 type=ssh-ed25519 key=SHA256:abc seconds=60"


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    """Give a log that is not there yet."""
    return AuditLog(tmp_path / "audit.log", tmp_path / "memory")


def test_a_line_is_read_by_its_fields() -> None:
    """Time, what happened, and each field by its name."""
    said = parsed(START)
    assert said is not None
    assert (said["what"], said["at"], said["key"]) == ("start", "2026-11-21T18:00:00Z", "SHA256:abc/+x")
    assert said["certificate"] == "laptop"


@pytest.mark.parametrize(
    "line",
    [
        "",
        START + ' event="x"',
        START + " password=x",
        START.replace("session-start", "link"),
        START.replace("alice", "a" * 200),
        START.replace("alice", "a\x1b[2J"),
        START.replace("2026", "now"),
        "2026-11-21T18:00:00Z session-start",
    ],
)
def test_any_other_line_is_none(line: str) -> None:
    """A user writes what it wants into the log; none of it reaches the operator's terminal or passes for a link."""
    assert parsed(line) is None


def test_lines_are_passed_on_once(log: AuditLog, capsys: pytest.CaptureFixture[str]) -> None:
    """Each whole line is said once; half a line waits for its other half."""
    allowance = Allowance("session")
    log.path.write_text(START + "\n" + END[:20])
    pass_on(log, allowance, 0)
    pass_on(log, allowance, 1)
    with log.path.open("a") as file:
        file.write(END[20:] + "\n")
    pass_on(log, allowance, 2)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["what"]) for line in said] == [("session", "start"), ("session", "end")]


def test_a_log_turned_over_cut_or_removed_is_followed(log: AuditLog) -> None:
    """The last lines before the turn are read, then the new file's; after a cut all is new."""
    log.path.write_text("one\n")
    assert log.read() == ["one"]
    with log.path.open("a") as file:
        file.write("two\n")
    log.path.rename(log.path.with_suffix(".1"))
    assert log.read() == ["two"]
    assert log.read() == []
    log.path.write_text("three\n")
    assert log.read() == ["three"]
    log.path.write_text("4\n")
    assert log.read() == ["4"]


def test_a_restart_goes_on_where_it_was(log: AuditLog) -> None:
    """What was said is not said again by the next process; another file is read from its start."""
    log.path.write_text("one\nhal")
    assert log.read() == ["one"]
    after = AuditLog(log.path, log.memory)
    with log.path.open("a") as file:
        file.write("f\n")
    assert after.read() == ["half"]
    log.path.unlink()
    (log.path.parent / "keeps-the-inode").write_text("")
    log.path.write_text("other\n")
    assert AuditLog(log.path, log.memory).read() == ["other"]


def test_nothing_else_is_read_in_its_place(log: AuditLog, tmp_path: Path) -> None:
    """A link to a secret of this container, a pipe that nobody writes, a folder: nothing is read, nothing waits."""
    secret = tmp_path / "token"
    secret.write_text(START + "\n")
    log.path.symlink_to(secret)
    assert log.read() == []
    log.path.unlink()
    os.mkfifo(log.path)
    assert log.read() == []
    log.path.unlink()
    log.path.mkdir()
    assert log.read() == []
    log.path.rmdir()
    log.path.write_text("at last\n")
    assert log.read() == ["at last"]


def test_a_flood_is_counted_and_dropped(log: AuditLog, capsys: pytest.CaptureFixture[str]) -> None:
    """More lines than anybody needs are not passed on; how many is said in the next minute."""
    allowance = Allowance("session")
    log.path.write_text((START + "\n") * (LINES_A_MINUTE + 5))
    pass_on(log, allowance, 0)
    assert len(capsys.readouterr().out.splitlines()) == LINES_A_MINUTE
    with log.path.open("a") as file:
        file.write(END + "\n")
    pass_on(log, allowance, 61)
    dropped, end = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (dropped["event"], dropped["count"], end["what"]) == ("session-lines-dropped", 5, "end")
