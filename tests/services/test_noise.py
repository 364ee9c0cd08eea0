"""What a tunnel client may write: its log is the platform's, read for evidence, and no frpc floods it."""

import json
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tunnel.allowance import LINES_A_MINUTE
from tunnel.frpc import Program, start
from tunnel.wanted import Server

from tests.services.world import Authority, claim, wait_for, wanted

NOISY = """\
#!/bin/sh
i=0
while [ $i -lt 500 ]; do echo "noise $i"; i=$((i + 1)); done
echo "2026-01-01 00:00:00.000 [W] [x.go:1] the last of it"
exec sleep 600
"""
"""In place of an frpc that was given something to complain of."""


def test_a_noisy_frpc_floods_no_log(tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    """All frpcs together have one allowance: each line is heard, few are passed on, the next minute says how many not.

    So the lines on links, by which others read whether a login works, stay among those that are read.
    """
    binary = tmp_path / "frpc"
    binary.write_text(NOISY)
    binary.chmod(0o700)
    program = Program(binary, tmp_path / "state", 2222)
    servers = [Server(f"frps-{n}", "127.0.0.1", 7000) for n in range(2)]
    with ExitStack() as ends:
        made = [start(program, one, wanted(one, authority, claim()), one.address) for one in servers]
        for frpc in made:
            ends.callback(frpc.end)
        wait_for(lambda: all(frpc.complaint == "the last of it" for frpc in made), "every line is heard")
        wait_for(lambda: program.lines.dropped == 2 * 501 - LINES_A_MINUTE, "the rest is counted")
        said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["event"] for line in said] == ["frpc"] * LINES_A_MINUTE

        assert program.lines.take(time.monotonic() + 61)
        (dropped,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (dropped["event"], dropped["count"]) == ("frpc-lines-dropped", 2 * 501 - LINES_A_MINUTE)
