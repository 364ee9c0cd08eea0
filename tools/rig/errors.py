"""The one error of the rig."""

from tools.shell import ToolError


class RigError(ToolError):
    """Say in one sentence what is wrong with a rig and what would be right."""
