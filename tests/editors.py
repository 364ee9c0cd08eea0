"""What editors do over SSH: their scripts, and what stands for the servers that they bring."""

import io
import re
import tarfile
from pathlib import Path

SERVER = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(f"listeningOn=={listener.getsockname()[1]}==", flush=True)
while True:
    listener.accept()[0].sendall(os.environ.get("WANDB_MODE", "no environment").encode())
"""
"""Stands for an editor's server: says where it listens, and shows whether it has the program's environment."""

INSTALL = """
set -e
echo "8f2c: running"
uname -rsm; echo "$HOME"; echo "bash=$BASH_VERSION"
mkdir -p ~/.vscode-server/bin
tar -xzf ~/.vscode-server/server.tar.gz -C ~/.vscode-server/bin
if [ ! -e ~/.vscode-server/log ]; then
    nohup setsid python3 -u ~/.vscode-server/bin/server.py > ~/.vscode-server/log 2>&1 < /dev/null &
fi
until grep -q listeningOn ~/.vscode-server/log; do sleep 0.05; done
cat ~/.vscode-server/log
echo "8f2c: end"
"""
"""What VS Code pipes into a shell: unpack what was copied, start the server once, say where it listens."""


def archive(folder: Path) -> Path:
    """Pack the server as an editor's release is."""
    file = folder / "server.tar.gz"
    entry = tarfile.TarInfo("server.py")
    entry.size = len(SERVER)
    with tarfile.open(file, "w:gz") as tar:
        tar.addfile(entry, io.BytesIO(SERVER.encode()))
    return file


def port_in(text: str) -> str:
    """Find where the server listens."""
    found = re.search(r"listeningOn==(\d+)==", text)
    assert found, text
    return found[1]


ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
"""What VS Code's newer way turns a shell into: a server on the session's own streams."""

BACKENDS = ".cache/JetBrains/RemoteDev"


def upload(backend: Path) -> str:
    """Give the sftp commands that bring JetBrains' *backend* to a unit, and show it."""
    made = "-mkdir .cache\n-mkdir .cache/JetBrains\n"
    there = f"{BACKENDS}/{backend.name}"
    return f"{made}-mkdir {BACKENDS}\nput {backend} {there}\nchmod 755 {there}\nls -l {BACKENDS}\n"
