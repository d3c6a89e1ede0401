"""The hosts of an emulated fabric for the demo's PyTorch job: they run its ranks, and their NICs count packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld
from mrc_lab.torch_jobs.launch import Rank, RankFailure, launch


class EmulatedHosts:
    """All hosts of `world`, a rank in each; from the thread that brought it up."""

    def __init__(self, world: EmulatedWorld) -> None:
        self._world = world
        self._run = world.emulation.run
        self._names = [nic.name for nic in world.fabric.nics]

    def train(
        self, command: Sequence[str], more: Mapping[str, str], write: Callable[[str], object]
    ) -> RankFailure | None:
        """Run `command` in every host and wait for all; which one failed first, if any."""
        shells = self._run.shells()
        ranks = [Rank(name, shells[name].pid) for name in self._names]
        return launch(
            self._run, ranks, command, more=more, write=write, note=lambda _: None
        )  # the demo shows it itself

    def retransmitted(self) -> int:
        """Packets that all NICs have sent again so far."""
        total = 0
        for name in self._names:
            with verbs.open(self._world.emulation.socket(name)) as context:
                total += context.hw_counters()["tx_retransmitted_packets"]
        return total
