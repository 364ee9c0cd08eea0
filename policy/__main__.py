"""Start as a policy pack when the engine runs the folder, and as a command when Python runs the package."""

import sys

if __package__:
    from policy.cli import main

    sys.exit(main())

from pulumi_policy import EnforcementLevel, PolicyPack

from policy.pack import policies

PolicyPack("gpu-runtime", policies(), EnforcementLevel.MANDATORY)  # serves the engine and never returns
