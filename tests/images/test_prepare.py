"""A prepare job: it fills a volume once for each digest, and nothing that failed passes for done."""

import signal
from pathlib import Path

from tests.images.containers import Pod, until

SH = "/.gpu-runtime/bin/sh"


def marker(pod: Pod) -> Path:
    """Return the file that says what the volume was prepared with."""
    return pod.path("workspace") / ".gpu-runtime/prepared"


def test_prepared_once(pod: Pod) -> None:
    """A job that runs again over prepared data does nothing, and says so."""
    command = [SH, "-c", "echo row >> data"]
    first, again = pod.prepare("sha256:a", *command), pod.prepare("sha256:a", *command)
    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert "already prepared (sha256:a)" in again.stdout
    assert (pod.path("workspace") / "data").read_text() == "row\n"
    assert marker(pod).read_text() == "sha256:a\n"


def test_another_digest_prepares_anew(pod: Pod) -> None:
    """What was prepared for something else, even a longer name, is not this."""
    for digest in ("sha256:ab", "sha256:a"):
        assert pod.prepare(digest, SH, "-c", "echo row >> data").returncode == 0
    assert (pod.path("workspace") / "data").read_text() == "row\nrow\n"
    assert marker(pod).read_text() == "sha256:a\n"


def test_a_failure_leaves_no_marker(pod: Pod) -> None:
    """The job ends as its command did, and an older marker does not vouch for half-changed data."""
    pod.prepare("sha256:a", SH, "-c", "true")
    assert pod.prepare("sha256:b", SH, "-c", "exit 3").returncode == 3
    assert not marker(pod).exists()


def test_a_stopped_job_leaves_no_marker(pod: Pod) -> None:
    """SIGTERM reaches the command, however it ends then."""
    started = pod.path("workspace") / "started"
    with pod.preparing("sha256:a", SH, "-c", "trap 'exit 4' TERM; touch started; while :; do sleep 0.05; done") as job:
        until(started.exists)
        job.signal(signal.SIGTERM)
        assert job.ends_with() == 4
    assert not marker(pod).exists()


def test_nothing_to_run(pod: Pod) -> None:
    """A job without a command fails rather than vouch for an empty volume."""
    assert pod.prepare("sha256:a").returncode == 1
    assert not marker(pod).exists()


def test_a_volume_that_cannot_be_written(pod: Pod) -> None:
    """The refusal says who may not write where."""
    pod.path("workspace").chmod(0o555)
    done = pod.prepare("sha256:a", SH, "-c", "true")
    assert done.returncode == 1
    assert "cannot write to the volume at /workspace as uid 1000" in done.stderr
