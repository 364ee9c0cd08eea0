"""What gpu-runtime costs: ratios against a bare program, and seconds on a rig."""

import sys

from tools.stack.engine import REPOSITORY

sys.path.append(str(REPOSITORY / "services"))  # what runs in pods is no package of this program's own
