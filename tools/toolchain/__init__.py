"""Provide every program that the project runs: from the cache, from what is installed, from releases, or built.

`ensure("pulumi", "kube")` returns paths; the same names on a command line: `python3 -m tools.toolchain pulumi kube`.
"""

from tools.shell import ToolError
from tools.toolchain.debian import ensure_debian
from tools.toolchain.engine import pulumi_env
from tools.toolchain.provide import ensure, locate
from tools.toolchain.table import versions

__all__ = ["ToolError", "ensure", "ensure_debian", "locate", "pulumi_env", "versions"]
