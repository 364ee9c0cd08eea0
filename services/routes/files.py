"""The files that Envoy watches: each appears whole, and only when it says something new."""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Files:
    """Files in *folder*, written by nobody else."""

    folder: Path
    _written: dict[str, bytes] = field(default_factory=dict)
    """Digests: the texts themselves would take as much memory as the files."""

    def write(self, name: str, text: str) -> bool:
        """Put *text* in place of the file *name*; say whether that was needed. Raises OSError; the file stays."""
        digest = hashlib.sha256(text.encode()).digest()
        if self._written.get(name) == digest:
            return False
        fresh = self.folder / f".{name}.new"
        try:
            with fresh.open("w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o640)
                file.write(text)
            fresh.replace(self.folder / name)
        except OSError:
            fresh.unlink(missing_ok=True)  # half a file takes room that the next one needs
            raise
        self._written[name] = digest
        return True
