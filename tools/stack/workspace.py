"""The folder of a stack on a rig (``.local/``): its secrets, its state, its generated stack file, its demo key."""

import json
import os
import secrets
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tools.shell import say
from tools.stack.engine import REPOSITORY, Engine

HEADER = "# Written by `make up` from {source}: edit that file, this one is written anew each time.\n"

LOCAL = "local"
"""The stack that has a rig of its own."""

Config = dict[str, Any]
"""A stack file: ``config`` and ``encryptionsalt``."""


@dataclass(frozen=True)
class Workspace:
    """Where a stack on a rig keeps what belongs to it alone; never in git."""

    folder: Path = REPOSITORY / ".local"
    stack: str = LOCAL
    source: Path = REPOSITORY / "stacks" / "Pulumi.local.yaml"
    """The stack file that people edit."""

    @property
    def config_file(self) -> Path:
        """Give the generated stack file."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    @property
    def identity(self) -> Path:
        """Give the demo key: its private half."""
        return self.folder / "id_ed25519"

    @property
    def ssh_config(self) -> Path:
        """Give the file for ``ssh -F``."""
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """Give the file that pins the units' host keys."""
        return self.folder / "known_hosts"

    @property
    def browser_ca(self) -> Path:
        """Give the file with the authority that browsers must trust, where the stack has one of its own."""
        return self.folder / "browser-ca.pem"

    @property
    def cluster_id(self) -> Path:
        """Give the file that names the cluster which the state was written for."""
        return self.folder / "cluster"

    @property
    def exists(self) -> bool:
        """Say whether a stack was ever made here."""
        return self.config_file.exists()

    @property
    def _backend(self) -> Path:
        return self.folder / "state"

    def engine(self) -> Engine:
        """Give the CLI for this stack: a file backend and a passphrase of its own."""
        environment = {
            "PULUMI_BACKEND_URL": f"file://{self._backend}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.folder / "passphrase"),
        }
        return Engine(self.stack, self.config_file, environment)

    def prepare(self) -> None:
        """Make the folder, the passphrase and the demo key where they are missing."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._backend.mkdir(mode=0o700, exist_ok=True)
        _keep(self.folder / "passphrase", lambda: secrets.token_hex(32))
        _keep(self.identity, _private_key)

    def public_key(self) -> str:
        """Give the demo key's public half as ``ssh-ed25519 AAAA... demo``."""
        loaded = serialization.load_ssh_private_key(self.identity.read_bytes(), password=None)
        encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        return f"{loaded.public_key().public_bytes(encoding, form).decode()} demo"

    def write(self, config: Config) -> None:
        """Write the stack file with *config*; what the engine encrypted in the old one stays."""
        old = self._written()
        kept = {key: value for key, value in old.get("config", {}).items() if _is_secret(value)}
        salt = {"encryptionsalt": old["encryptionsalt"]} if "encryptionsalt" in old else {}
        text = yaml.safe_dump({**salt, "config": {**config, **kept}}, sort_keys=False, width=120)
        replace(self.config_file, HEADER.format(source=self.source.name) + text)

    def begin(self) -> None:
        """Make the stack in its backend and give it a secret, once."""
        if "encryptionsalt" not in self._written():
            salt = {"encryptionsalt": self._make_stack()}
            replace(self.config_file, yaml.safe_dump({**salt, **self._written()}, sort_keys=False, width=120))
        if not _is_secret(self._written()["config"].get("gpu-runtime:secret")):
            self.engine().output("config", "set", "--secret", "gpu-runtime:secret", stdin=secrets.token_hex(32))

    def unlock(self) -> None:
        """Remove the locks of runs that were killed on this machine; another machine's or a living run's stays."""
        for lock in (self._backend / ".pulumi" / "locks").rglob("*.json"):
            holder = json.loads(lock.read_text())
            if holder.get("hostname") == socket.gethostname() and not Path(f"/proc/{holder.get('pid')}").exists():
                say(f"an earlier run (pid {holder.get('pid')}) ended without a word: its lock is removed")
                lock.unlink()

    def _written(self) -> Config:
        found: Config = yaml.safe_load(self.config_file.read_text()) if self.exists else {}
        return found

    def _make_stack(self) -> str:
        """Make the stack and give its salt; in a project aside, since the CLI writes the salt into the stack file."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            aside = Path(scratch)
            (aside / "Pulumi.yaml").write_text("name: gpu-runtime\nruntime: python\n")
            engine = Engine(self.stack, None, self.engine().environment, aside)
            if not (self._backend / f".pulumi/stacks/gpu-runtime/{self.stack}.json").exists():
                engine.output("stack", "init", "--no-select", "--secrets-provider", "passphrase")
            engine.output("config", "set", "--secret", "gpu-runtime:salt", "x")  # a stack made earlier: a new salt
            salt: str = yaml.safe_load((aside / f"Pulumi.{self.stack}.yaml").read_text())["encryptionsalt"]
        return salt


def _is_secret(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {"secure"}


def _private_key() -> str:
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _keep(path: Path, make: Any) -> None:
    if not path.exists():
        replace(path, make())


def replace(path: Path, text: str) -> None:
    """Write *path* as a whole or not at all, readable by its owner alone."""
    scratch = path.with_name(f".{path.name}.new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    scratch.replace(path)
