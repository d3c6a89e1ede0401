"""Limits of a backend on faults, and its refusals: a sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from topologies.errors import FabricError, FaultLimitError
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import delaying_end
from topologies.faults.effect import Effect, PortShaping
from topologies.faults.kind import BackendKind, Fault, FaultKind, Intermittent
from topologies.faults.record import FaultRecord

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class FaultLimits:
    """Limits of one backend; None is no limit.

    `shortest_phase_ns` is for both times of a fault that comes and goes. `longest_ns` is for those too, and for the
    time until a fault begins and that it lasts. `min_rate_bps` and `max_delay_ns` are for what ports are shaped to.
    `max_changes_per_s` is for the links or switches that such faults change, all together; `max_toggles` for links, or
    groups of them, that change each in its own time. `kernel_switches`: whether those of a fabric are the kernel's
    here, and make no faults.
    """

    backend: BackendKind
    shortest_phase_ns: int
    longest_ns: int | None = None
    min_rate_bps: int = 1
    max_delay_ns: int | None = None
    max_faults: int | None = None
    max_changes_per_s: int | None = None
    max_toggles: int | None = None
    kernel_switches: bool = False

    def seen(self, fabric: Fabric) -> Fabric:
        """The fabric as this backend makes it."""
        if self.kernel_switches or not fabric.kernel_switches:
            return fabric
        return replace(fabric, switches=tuple(replace(switch, kernel=False) for switch in fabric.switches))

    def effect_of(self, fabric: Fabric, fault: Fault) -> Effect:
        """What a fault does; of one that comes and goes, while it is on.

        FabricError, one sentence, when it names what is not there, a value is out of range, or the backend cannot.
        """
        kind: FaultKind | None = getattr(fault, "kind", None)
        if kind is None or not isinstance(fault, Fault):
            name = fault.__name__ if isinstance(fault, type) else type(fault).__name__
            raise FabricError(f"{self.backend.value} cannot make the fault {name}, which is of no kind")
        fault.check()
        if self.backend not in kind.backends:
            other = " or ".join(backend.value for backend in BackendKind if backend in kind.backends)
            raise FabricError(f"{self.backend.value} cannot make the fault {kind.name}: use {other}")
        if isinstance(fault, Intermittent):
            self._check_phases(fault)
        fabric = self.seen(fabric)
        effect = fault.effect(fabric)
        for end, shape in effect.shapes:
            self._check_shape(fabric, end, shape)
        return effect

    def check_times(self, begins_in: int, lasts: int) -> None:
        """FabricError if a fault would begin too late or last too long (ns), or less than no time."""
        for what, value in (("begin", begins_in), ("last", lasts)):
            if value < 0 or (self.longest_ns is not None and value > self.longest_ns):
                possible = "0 or more" if self.longest_ns is None else f"0 to {self.longest_ns}"
                raise FabricError(f"a fault cannot {what} {value} ns: {possible} ns are possible")

    def check_room(self, count: int) -> None:
        """FaultLimitError if there cannot be one more than `count` faults."""
        if self.max_faults is not None and count >= self.max_faults:
            raise FaultLimitError(f"There are {self.max_faults} faults already: clear some first.")

    def check_changes(self, records: Iterable[FaultRecord]) -> None:
        """FaultLimitError if faults would come and go more often, or on more links, than is possible."""
        changes, toggles, verb = 0.0, 0, ""
        for record in records:
            if isinstance(fault := record.fault, Intermittent):
                changes += 2e9 * max(len(record.links), len(record.switches), 1) / sum(fault.times())
                toggles += len(fault.groups(record.links))
                verb = fault.comes_and_goes[1]
        if self.max_changes_per_s is not None and changes > self.max_changes_per_s:
            raise FaultLimitError(
                f"Links would {verb} more often than {self.max_changes_per_s} times a second, all together."
            )
        if self.max_toggles is not None and toggles > self.max_toggles:
            raise FaultLimitError(
                f"More links would {verb} at random than {self.max_toggles}, all together: clear some first."
            )

    def _check_phases(self, fault: Intermittent) -> None:
        low, high = self.shortest_phase_ns, self.longest_ns
        if not all(low <= time and (high is None or time <= high) for time in fault.times()):
            where, (verb, _) = fault.kind.target.name if fault.kind.target else "fault", fault.comes_and_goes
            least = f"{low} ns" if low % _MS else f"{low // _MS} ms"
            phases = " and ".join(f"{time} ns {state}" for time, state in zip(fault.times(), fault.states, strict=True))
            raise FabricError(f"a {where} {verb} with times of {least} or more, not {phases}")

    def _check_shape(self, fabric: Fabric, end: LinkEnd, shape: PortShaping) -> None:
        if shape.rate_bps is not None and shape.rate_bps < self.min_rate_bps:
            raise FabricError(f"a link's rate is at least {self.min_rate_bps} b/s, not {shape.rate_bps}")
        if not shape.delay:
            return
        if self.max_delay_ns is not None and shape.delay > self.max_delay_ns:
            raise FabricError(f"an added delay is {self.max_delay_ns // 10**9} s at most, not {shape.delay} ns")
        if delaying_end(fabric, end) is None:
            peer = fabric.peer(end)
            raise FabricError(
                f"the link from {end.node} to {peer.node if peer else 'nowhere'} has no end at a P4 switch, which would"
                " delay frames: use another link, or simulation"
            )
