"""The commands of docs/ssh.md, and a user's folder in which they run as they stand there."""

import re
import shlex
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "docs/ssh.md"
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL) for line in block.splitlines()
]
HELD = [command for command in COMMANDS if " -N " in command]
"""Those that stay until they are ended."""

ENDING = [command for command in COMMANDS if command not in HELD]
PROGRAMS = ("ssh", "scp", "sftp")
FILE = "results.csv"
"""What the commands copy."""


def users_folder(folder: Path, rsync: Path, *options: str) -> dict[str, str]:
    """Put into *folder* the file to copy, OpenSSH's clients with *options* before all others, and *rsync*.

    Give the environment in which a shell finds them.
    """
    (folder / FILE).write_text("1,2\n")
    for program in PROGRAMS:
        shim = folder / program
        shim.write_text(f'#!/bin/sh\nexec /usr/bin/{program} {shlex.join(options)} "$@"\n')
        shim.chmod(0o755)
    if not (folder / "rsync").exists():
        (folder / "rsync").symlink_to(rsync)
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}
