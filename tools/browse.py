"""``python -m tools.browse``: let a browser of this machine reach the local stack's pages, until Ctrl-C.

The rig has an address that no name leads to. Browsers take every name below `localhost` for their own machine, so this
listens there, and hands what comes to the rig as it is: TLS and passwords are the proxy's. From another machine:
`ssh -L` to the same port.
"""

import argparse
import asyncio
from contextlib import closing, suppress

from tools.rig import Rig
from tools.shell import ToolError, command, say
from tools.stack import pages
from tools.stack.reading import read_stack
from tools.stack.workspace import LOCAL, Workspace

CHUNK = 1 << 16


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.browse", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    stack, workspace = read_stack(LOCAL), Workspace()
    outputs = workspace.engine().outputs()
    found, (_, port) = pages.chosen(outputs, ""), pages.doors(outputs)
    service = getattr(stack.config.browser, "service", None)
    if service is None or service.node_port is None:
        raise ToolError("the local stack's proxy has no node port: say service: {type: NodePort, nodePort: ...}")
    node = str(Rig(LOCAL).node_ip)
    say("\n".join(pages.lines(found)))
    say(f"the authority to trust: {workspace.browser_ca}; passwords: `make password TENANT=...`. Ctrl-C ends this")
    asyncio.run(serve(port, node, service.node_port))


async def serve(port: int, host: str, target: int) -> None:
    """Hand what comes to *port* of loopback on to *target* of *host*, for ever. Raises ToolError if it is taken."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError), closing(writer):
            there, back = await asyncio.open_connection(host, target)
            with closing(back):
                await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))

    try:
        server = await asyncio.start_server(one, ["127.0.0.1"], port)
    except OSError as error:
        raise ToolError(f"port {port} of this machine is taken: {error.strerror}") from None
    async with server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, and tell the other side that it is."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


if __name__ == "__main__":
    command(main)
