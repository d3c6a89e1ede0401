"""Joining a communicator: who comes late, and what is left on a NIC."""

import asyncio


class Late:
    """The exchange of a rank that never comes to `step`."""

    def __init__(self, exchange, step):
        self.rank, self.world = exchange.rank, exchange.world
        self._exchange, self._step = exchange, step

    async def gather(self, name, value):
        if name.endswith(self._step):
            await asyncio.Event().wait()
        return await self._exchange.gather(name, value)


def held(nic):
    """Queue pairs, queues and regions that exist on a NIC, which counts them for nobody: so they are counted inside."""
    return len(nic._qps.by_qpn), len(nic._cqs), len(nic._context.memory._by_lkey)
