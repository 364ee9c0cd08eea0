"""How the process of a program runs: what the SDK leaves to Python's defaults and to chance.

A resource that could not be made because one before it failed is a mistake in the program to the SDK, which would end
it while units are still arriving, and print where in the SDK that was. Here the rest goes on, and one line says so. The
program must fail nevertheless: what a program that ends well did not register is to the engine what nobody wants any
more, and it would delete it.
"""

import gc

import pulumi
from pulumi.runtime import settings, stack

OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""At Python's own 700, a third of the program's time goes into looking at resources that live to its end anyway."""

Missing = stack.ResourceRegistrationFailed

_wait_for_rpcs = stack.wait_for_rpcs


async def _settle(await_all_outstanding_tasks: bool = True) -> None:  # noqa: FBT001, FBT002 - the SDK's signature
    """Wait for everything that is under way, as the SDK does, then fail for what was not made."""
    manager, missing = settings._get_rpc_manager(), 0  # noqa: SLF001 - the SDK offers no other way
    while True:
        try:
            await _wait_for_rpcs(await_all_outstanding_tasks)
        except Missing:
            manager.unhandled_exception, missing = None, missing + 1
        else:
            break
    if missing:
        raise pulumi.RunError("not everything was made, since what it needs has failed: see the errors above")


def begin() -> None:
    """Arrange this process for a program; to be called before its first resource."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    stack.wait_for_rpcs = _settle
