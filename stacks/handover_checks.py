"""Problems of who has the platform: this stack, or another one that admits it."""

from collections import Counter
from collections.abc import Iterator

from components.names import PROJECT
from stacks.handover import secret_output
from stacks.problems import Problem, Raw, valid
from stacks.schema import PlatformConfig
from stacks.server_checks import PATH, server_of


def handover_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what is wrong with ``platform``, ``platformStack`` and what goes with each."""
    if "platformStack" in raw:
        yield from _of_tenants_alone(raw)
        return
    if "platform" not in raw:
        advice = f"a stack of tenants alone says {PROJECT}:platformStack: <organization>/<project>/<stack> instead"
        yield Problem("platform", f"is missing; {advice}")
    server = server_of(raw)
    if "platformKeys" in raw and not (server and server.gate):
        there = f"there is neither {PROJECT}:platformStack nor a {PATH} with `gate: true`"
        yield Problem("platformKeys", f"is what another's platform or gate hands over, and {there}")
    if platform := valid(PlatformConfig, raw.get("platform", {})):
        yield from _admits(platform)


def self_problems(raw: Raw, stack: str) -> Iterator[Problem]:
    """Refuse to admit the stack itself, called *stack*: its own units need nobody's leave."""
    platform = valid(PlatformConfig, raw.get("platform", {}))
    if platform and stack in platform.admits:
        yield Problem(
            "platform.admits", f"{stack!r} is this stack, whose units may use its tier as it is; leave it out"
        )


def _of_tenants_alone(raw: Raw) -> Iterator[Problem]:
    if "platform" in raw:
        yield Problem("platformStack", f"stands beside {PROJECT}:platform; a stack has a platform or uses another's")
    if "previousSecret" in raw:
        advice = "the stack with the platform signs for this one, and its own previousSecret makes the overlap"
        yield Problem("previousSecret", f"has no use beside platformStack, so remove it: {advice}")
    if "platformKeys" not in raw:
        read = f"pulumi stack output '{secret_output('<this stack>')}' --show-secrets --stack <platformStack>"
        advice = f"its operator runs `{read}`, and you `pulumi config set --secret {PROJECT}:platformKeys` with that"
        yield Problem("platformKeys", f"is missing, and the platform's secrets cannot be opened from here; {advice}")


def _admits(platform: PlatformConfig) -> Iterator[Problem]:
    if platform.admits and platform.ssh.server:
        advice = "say the same `server` in each of those stacks, or remove `admits`"
        yield Problem("platform.admits", f"admits nobody to a tunnel server elsewhere; {advice}")
    for owner, count in Counter(platform.admits).items():
        if count > 1:
            yield Problem("platform.admits", f"{owner!r} is named {count} times; once is enough")
