"""Timers and windows that fit a fabric of microseconds, or of long links.

The NIC's own defaults suit emulation, where a round trip takes a millisecond. Here they follow from the fabric: its
longest round trip without queues, and how long a full switch queue takes to drain. Only times and windows are scaled,
the range of PSNs among them; every other setting stays what the fabric says.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from mrc_host.config import PathTimers, TransportSettings
from mrc_host.transport.psn_range import mpr_for
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.verbs_types import QpAttributes
from simulation.hardware_timing import IDEAL, HardwareTiming
from topologies.fabric import Fabric
from topologies.paths import TimersOf
from topologies.round_trip import FRAME, OVERHEAD, PROBE, bandwidth_delay_product, base_round_trip, serialization

_TICK = 1024  # ns, unit of the ACK timeout
_LONGEST = 3600 * 10**9  # ns that a timer may have; only links of some kb/s ask for more


@dataclass(frozen=True, slots=True)
class FabricTiming:
    """Times of a fabric, in ns: a full packet and its SACK without queues, and a full queue on the slowest link.

    `window` is 1.5 times what a NIC's ports carry in one round trip, in bytes. `trimming` says whether switches trim.
    `bdp` is what the ports of the fastest NIC carry in one round trip, in bytes.
    `hardware` has the shortest times of the transport's own recovery; what hardware takes is in `round_trip` already.
    """

    round_trip: int
    queue: int
    window: int
    trimming: bool = True
    bdp: int = 0
    hardware: HardwareTiming = IDEAL

    def transport(self, base: TransportSettings) -> TransportSettings:
        """`base` with its timers, its window and what congestion control measures against fitted."""
        trip = self.round_trip
        timeout = 4 * (trip + self.queue)
        timers = {
            "recovery_delay": max(base.recovery_delay, self.hardware.recovery),
            "retransmission_pause": max(base.retransmission_pause, self.hardware.retransmission),
            "probe_spacing": self.probe_spacing,
            "flap_half_life": 5000 * trip,
            "port_status_retry": timeout,
            "port_status_max": 100 * timeout,
            "flap_window": 500 * trip,
        }
        fitted: dict[str, Any] = {name: min(_LONGEST, timer) for name, timer in timers.items()}
        fitted |= asdict(self.path_timers(trip))
        return replace(base, default_window=self.window, base_rtt=trip, trimming=self.trimming, **fitted)

    def path_timers(self, trip: int) -> PathTimers:
        """Timers for a destination whose round trip is `trip` ns; queues may be in its way wherever it is."""
        return PathTimers(
            tail_probe_min=min(_LONGEST, max(2 * trip, self.hardware.tail_probe)),
            probe_interval=min(_LONGEST, 10 * trip),
            probe_timeout=min(_LONGEST, 4 * trip + self.queue),
            reverse_probe_interval=min(_LONGEST, trip),  # as published (docs/protocol.md, R3.16)
        )

    def timers_of(self, settings: TransportSettings) -> TimersOf:
        """Timers of destinations by round trip; those of `settings` that are not the fitted ones hold for all."""
        fitted = asdict(self.path_timers(self.round_trip))
        given = {name: value for name, value in asdict(settings.path_timers).items() if value != fitted[name]}
        return lambda trip: replace(self.path_timers(trip), **given)

    @property
    def probe_spacing(self) -> int:
        """Background probes take one per cent of what the ports of a NIC carry, or come four in a round trip (ns)."""
        spacing = -(-self.round_trip // 4)
        if not self.bdp:
            return spacing
        return min(spacing, -(-100 * (PROBE + OVERHEAD) * self.round_trip // self.bdp))

    @property
    def timeout(self) -> int:
        """Exponent of the ACK timeout of the longest round trip."""
        return self.timeout_of(self.round_trip)

    def timeout_of(self, trip: int) -> int:
        """Exponent of an ACK timeout beyond four round trips through full queues, and of the hardware's shortest."""
        fitted = (4 * (trip + self.queue) // _TICK).bit_length()
        least = (-(-self.hardware.ack_timeout // _TICK) - 1).bit_length() if self.hardware.ack_timeout else 0
        return min(24, max(1, fitted, least))

    def attributes(self, base: QpAttributes | None = None, trip: int = 0) -> QpAttributes:
        """`base` with the ACK timeout fitted; without a `base`, attributes with the range of PSNs fitted too.

        To the round trip `trip` (ns) of the queue pair's peer, or to the longest of the fabric.
        """
        trip = trip or self.round_trip
        if base is None:
            mpr = mpr_for(self.bdp * trip // self.round_trip, QpAttributes().path_mtu)
            base = QpAttributes(mpr=mpr, mpr_dest=mpr)
        return replace(base, timeout=self.timeout_of(trip))


def timing(fabric: Fabric, delay: int, queue_packets: int, hardware: HardwareTiming = IDEAL) -> FabricTiming:
    """Times of `fabric` with switch queues of `queue_packets` full packets; links that do not say have `delay` ns."""
    slowest = min(link.rate_bps for link in fabric.links)
    packet = serialization(FRAME, slowest)
    round_trip = base_round_trip(fabric, delay) + 2 * hardware.pipelines(_switches(fabric))
    rate = max(sum(link.rate_bps for link in fabric.links_of(nic.name)) for nic in fabric.nics)
    window = max(16 * FRAME, 3 * rate * round_trip // 2 // 8_000_000_000)
    bdp = bandwidth_delay_product(fabric, round_trip)
    return FabricTiming(round_trip, queue_packets * packet, window, fabric.trims, bdp, hardware)


def _switches(fabric: Fabric) -> int:
    """Switches on the longest path."""
    return 1 + 2 * bool(fabric.t1_count) + 2 * bool(fabric.t2_count)


def retry_budget(attributes: QpAttributes, transport: TransportSettings) -> int:
    """How long (ns) a queue pair goes on without an answer before it fails; at least, not exactly."""
    policy = RetryPolicy.with_attributes(attributes, transport)
    return sum(map(policy.timeout_after, range(attributes.retry_count)))
