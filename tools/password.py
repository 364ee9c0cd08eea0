"""``python -m tools.password TENANT [--user U] --stack X``: print what one user signs in with at a tenant's pages.

It is derived anew each time from the stack's secret, which the deployer's passphrase or key service opens; nothing
keeps it. Standard output has the password alone, for a pipe.
"""

import argparse

from pydantic import SecretStr

from components import names
from components.access import Access
from components.proxy_spec import url
from stacks.keys import Keys
from stacks.resolve import Stack
from tools.shell import ToolError, command, say
from tools.stack.engine import Engine
from tools.stack.reading import read_stack
from tools.stack.workspace import LOCAL, Workspace


def main() -> None:
    """Do what the command line says."""
    arguments = _parser().parse_args()
    stack = read_stack(arguments.stack)
    access, user = chosen(stack, arguments.tenant, arguments.user)
    engine = Workspace().engine() if arguments.stack == LOCAL else Engine(arguments.stack)
    found = password(stack, engine.output("config", "get", f"{names.PROJECT}:secret").strip(), access, user)
    if at := stack.config.browser:
        say(f"{user} signs in at {url(names.index_host(access.namespace, at.host), at.port)}/ with:")
    print(found)


def chosen(stack: Stack, tenant: str, user: str | None) -> tuple[Access, str]:
    """Find the user that is meant. Raises ToolError with who there is."""
    if not stack.config.browser:
        raise ToolError("nobody can sign in: the platform has no proxy (gpu-runtime:platform.browser)")
    if tenant not in stack.access:
        raise ToolError(f"no tenant {tenant!r} has pages; there are {', '.join(stack.access) or 'none'}")
    access = stack.access[tenant]
    if user is None and len(access.users) > 1:
        raise ToolError(f"tenant {tenant!r} has users {', '.join(access.users)}: say USER=<one of them>")
    if user is not None and user not in access.users:
        raise ToolError(f"tenant {tenant!r} has no user {user!r}; there are {', '.join(access.users)}")
    return access, user or access.users[0]


def password(stack: Stack, secret: str, access: Access, user: str) -> str:
    """Derive the password of *user* from the stack's *secret*."""
    known = stack.config.model_copy(update={"secret": SecretStr(secret)})
    return Keys(Stack(known, stack.owner)).password(access, user)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.password", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tenant", help="whose pages")
    parser.add_argument("--user", help="one of the tenant's webUsers, where there are several")
    parser.add_argument("--stack", default=LOCAL, help="stack of the tenant (default: %(default)s)")
    return parser


if __name__ == "__main__":
    command(main)
