"""Wait until a switch accepts connections.

A switch is only dialled then: gRPC waits a second and more before it tries an address again that nobody listened on.
"""

from __future__ import annotations

import asyncio

_DIAL_INTERVAL_S = 0.02


async def wait_until_listening(address: str) -> None:
    """Return when something accepts connections at a gRPC address (unix:PATH or host:port)."""
    while not await _listens(address):
        await asyncio.sleep(_DIAL_INTERVAL_S)


async def _listens(address: str) -> bool:
    try:
        if address.startswith("unix:"):
            _, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError:
        return False
    writer.close()
    return True
