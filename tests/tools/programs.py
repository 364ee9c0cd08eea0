"""Programs that tests put in a real one's place."""

from pathlib import Path


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def installed_pulumi(folder: Path, version: str) -> Path:
    for name in ("pulumi-language-python", "pulumi-language-python-exec"):
        program(folder / name, "true")
    return program(folder / "pulumi", f"echo v{version}")
