"""The program, as somebody would have broken it: units carry a service-account token.

With LAWLESS_BLIND=1 the program's own judgement is broken as well, so that the policy pack stands alone.
"""

import os
import runpy
from pathlib import Path

from components import unit_pod
from policy import law

setattr(unit_pod, "POD_DEFAULTS", {"enableServiceLinks": False, "automountServiceAccountToken": True})  # noqa: B010
if os.environ.get("LAWLESS_BLIND") == "1":
    setattr(law, "judge", lambda _manifests: [])  # noqa: B010

runpy.run_path(str(Path(__file__).parents[2] / "__main__.py"))
