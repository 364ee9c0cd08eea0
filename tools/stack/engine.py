"""Runs the Pulumi CLI that the toolchain provides, with our environment and the policy pack."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools import toolchain
from tools.shell import HEARTBEAT_SECONDS, STOP_SECONDS, TerminatedError, ToolError, say

REPOSITORY = Path(__file__).parents[2]
PACK = REPOSITORY / "policy"
PROGRAMS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")

READS_CONFIG = frozenset({"up", "preview", "destroy", "refresh", "config"})
"""Commands of the CLI that know ``--config-file``."""


@dataclass(frozen=True)
class Engine:
    """One stack as the CLI sees it."""

    stack: str
    config_file: Path | None = None
    """None: stacks/Pulumi.<stack>.yaml."""
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = REPOSITORY

    def run(self, *arguments: str) -> int:
        """Run the CLI: on a terminal with its live display, else line by line with a sign of life when it is silent."""
        if sys.stdout.isatty():
            return self.interactive(*arguments)
        with (
            self._private() as environment,
            subprocess.Popen(
                self._argv(arguments),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            return _follow(process, arguments[0])

    def interactive(self, *arguments: str) -> int:
        """Run the CLI with this terminal as its own, questions included."""
        argv = self._argv(arguments, ask=True)
        with self._private() as environment, subprocess.Popen(argv, cwd=self.folder, env=environment) as process:
            return _finish(process)

    def output(self, *arguments: str, stdin: str = "") -> str:
        """Give what the CLI prints; *stdin* carries what must not be seen in a process list.

        Raises ToolError with its last words when it fails.
        """
        done = subprocess.run(
            self._argv(arguments),
            cwd=self.folder,
            env=self.env(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ToolError(f"pulumi {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def outputs(self) -> dict[str, Any]:
        """Give the stack's outputs; those that are secret stay hidden."""
        found: dict[str, Any] = json.loads(self.output("stack", "output", "--json"))
        return found

    def env(self) -> dict[str, str]:
        """Give the environment of the CLI."""
        toolchain.ensure(*PROGRAMS)
        return {**os.environ, **toolchain.pulumi_env(), **self.environment}

    @contextmanager
    def _private(self) -> Iterator[dict[str, str]]:
        """Give the environment with a folder for temporary files that goes afterwards.

        The Kubernetes provider leaves copies of the kubeconfig, keys included, among them.
        """
        with tempfile.TemporaryDirectory(prefix="gpu-runtime-") as folder:
            yield {**self.env(), "TMPDIR": folder}

    def _argv(self, arguments: Sequence[str], *, ask: bool = False) -> list[str]:
        quiet = [] if ask else ["--non-interactive"]
        config = ["--config-file", str(self.config_file)] if self.config_file and arguments[0] in READS_CONFIG else []
        return ["pulumi", *arguments, "--stack", self.stack, *config, *quiet]


def _finish(process: subprocess.Popen[Any]) -> int:
    """Wait for the CLI. When interrupted it finishes the step in hand, so that its state stays true."""
    try:
        return process.wait()
    except KeyboardInterrupt as reason:
        say("interrupted: pulumi finishes the step in hand; once more ends it at once")
        if isinstance(reason, TerminatedError):
            process.send_signal(signal.SIGINT)
        process.wait()
        raise


def _follow(process: subprocess.Popen[str], label: str) -> int:
    """Copy the program's lines here; when it is silent, say that it goes on."""
    started, last = time.monotonic(), [time.monotonic()]
    over = threading.Event()

    def copy() -> None:
        for line in process.stdout or ():
            last[0] = time.monotonic()
            sys.stdout.write(line)
            sys.stdout.flush()

    def beat() -> None:
        while not over.wait(1.0):
            if time.monotonic() - last[0] >= HEARTBEAT_SECONDS:
                last[0] = time.monotonic()
                say(f"pulumi {label}: {last[0] - started:.0f} s")

    threads = [threading.Thread(target=work, daemon=True) for work in (copy, beat)]
    for thread in threads:
        thread.start()
    try:
        return _finish(process)
    finally:
        threads[0].join(STOP_SECONDS)
        over.set()
