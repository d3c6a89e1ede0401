"""Real NIC devices joined in memory, under a virtual clock, with verbs and an asyncio loop on top."""

from mrc_host.verbs import Context, LocalProvider
from simulation.virtual_time_loop import VirtualTimeLoop
from tests.mrc_host.wires import World


class NicWorld:
    """`world` NICs; faults may be given as to `tests.mrc_host.wires.World`. Its clock is what the loop waits by."""

    def __init__(self, world, **wires):
        self.wires = World(nics=world, **wires)
        self.providers = [
            LocalProvider(nic, lambda: self.wires.now, poke=lambda number=number: self.wires.pump(number))
            for number, nic in enumerate(self.wires.nics)
        ]
        self.contexts = [Context(provider) for provider in self.providers]
        self.loop = VirtualTimeLoop(self)
        self.stopped = False

    def finish(self, coroutine):
        """Run until the coroutine is done and return its result; all others are cancelled."""
        try:
            return self.loop.run_task(self.loop.create_task(coroutine))
        finally:
            self.loop.close()

    # What the loop asks of a clock

    @property
    def now(self):
        return self.wires.now

    def stop(self):
        self.stopped = True

    def run(self, until=None):
        self.stopped = False

        def moved():
            for provider in self.providers:
                provider.dispatch()
            return self.stopped

        duration = None if until is None else until - self.now
        self.wires.run(duration, until=moved)
        return self.stopped
