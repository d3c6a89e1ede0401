"""The indexed counters of a switch's P4 program, by the last part of their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from p4runtime_shim.entities import CounterValue
from p4runtime_shim.switch import EmbeddedSwitch
from p4src import DROP_REASONS, port_drop

_BY_FAULTS_ARRIVING: Final = tuple(map(DROP_REASONS.index, ("arrival loss", "path loss", "blackhole")))
_BY_FAULTS_LEAVING: Final = (DROP_REASONS.index("departure loss"),)


class _NoCounter(Sequence[CounterValue]):
    def __getitem__(self, index: int) -> CounterValue:  # type: ignore[override] # nobody takes slices
        return CounterValue(0, 0)

    def __len__(self) -> int:
        return 0


_NO_COUNTER: Final = _NoCounter()


class ProgramCounters:
    """The counters of one switch."""

    def __init__(self, switch: EmbeddedSwitch) -> None:
        assert switch.pipeline is not None, "a world's switches have a program"
        self._switch = switch
        self._full = {counter.name.split(".")[-1]: counter.name for counter in switch.pipeline.program.counters}

    def cell(self, counter: str, index: int) -> int:
        """Packets that one cell has counted; 0 if the program has no such counter."""
        if counter not in self._full:
            return 0
        return self._switch.control_plane.externs.counter_read(self._full[counter], index).packets

    def cells(self, counter: str) -> Sequence[CounterValue]:
        """All cells; as many as anybody asks for, all 0, if the program has no such counter."""
        if counter not in self._full:
            return _NO_COUNTER
        return self._switch.control_plane.externs.counter_read_all(self._full[counter])

    def lost_by_faults(self) -> Callable[[int, bool], int]:
        """Frames that faults lost so far as they arrived at a port (True), or before they left it, as a function."""
        drops = self.cells("port_drops")

        def lost(port: int, arriving: bool) -> int:
            reasons = _BY_FAULTS_ARRIVING if arriving else _BY_FAULTS_LEAVING
            return sum(drops[port_drop(port, reason)].packets for reason in reasons)

        return lost

    def corrupted(self, port: int, *, arriving: bool) -> int:
        """Frames that faults corrupted as they arrived at a port, or before they left it."""
        return self.cell("arrival_corrupted" if arriving else "departure_corrupted", port)
