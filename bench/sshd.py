"""The bundle's sshd without a container: for measurements, and for tests of the way to it."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import free_port, running, until_listens
from tools.images.build import part_files
from tools.images.recipes import OPENSSH
from tools.stack.engine import REPOSITORY

UID = 12345
SERVE = REPOSITORY / "images/ssh-bundle/libexec/serve"


def limits() -> list[str]:
    """Give the lines by which a unit's sshd limits who has not logged in."""
    return re.findall(r"^(?:MaxStartups|LoginGraceTime) .+$", SERVE.read_text(), re.MULTILINE)


@contextmanager
def sshd(folder: Path) -> Iterator[int]:
    """Run the bundle's sshd as its only user, as in a unit; give its port."""
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    for name in ("sshd", "scp", "sftp-server"):
        shutil.copy(part_files(OPENSSH) / "bin" / name, folder)
    shutil.chown(folder / "host", UID, UID)
    (folder / "passwd").write_text(f"bench:x:{UID}:{UID}::{folder}:/bin/sh\n")
    port = free_port()
    lines = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", "StrictModes no", "PidFile none"]
    lines += [f"AuthorizedKeysFile {folder}/client.pub", "LogLevel ERROR", *limits()]
    (folder / "sshd_config").write_text("\n".join([*lines, ""]))
    (folder / "client.pub").chmod(0o644)
    drop = f"exec setpriv --reuid {UID} --regid {UID} --clear-groups {folder}/sshd -D -e -f {folder}/sshd_config"
    inside = f"mount --bind {folder}/passwd /etc/passwd && {drop}"
    with running(["unshare", "--mount", "sh", "-c", inside], folder / "sshd.log"):
        until_listens(port, folder / "sshd.log")
        yield port
