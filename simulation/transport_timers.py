"""Timers and windows that fit a fabric of microseconds, or of long links.

The NIC's own defaults suit emulation, where a round trip takes a millisecond. Here they follow from the fabric: its
longest round trip without queues, and how long a full switch queue takes to drain. Only times and windows are scaled,
the range of PSNs among them; every other setting stays what the fabric says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mrc_host.config import TransportSettings
from mrc_host.transport.psn_range import mpr_for
from mrc_host.values import QpAttributes
from simulation.hardware_timing import IDEAL, HardwareTiming
from topologies.fabric import Fabric
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
            "tail_probe_min": max(2 * trip, self.hardware.tail_probe),
            "recovery_delay": max(base.recovery_delay, self.hardware.recovery),
            "probe_interval": 10 * trip,
            "probe_timeout": 4 * trip + self.queue,
            "probe_spacing": self.probe_spacing,
            "flap_half_life": 5000 * trip,
            "reverse_probe_interval": 10 * trip,
            "port_status_retry": timeout,
            "port_status_max": 100 * timeout,
            "flap_window": 500 * trip,
        }
        fitted: dict[str, Any] = {name: min(_LONGEST, timer) for name, timer in timers.items()}
        return replace(base, default_window=self.window, base_rtt=trip, trimming=self.trimming, **fitted)

    @property
    def probe_spacing(self) -> int:
        """Background probes take one per cent of what the ports of a NIC carry, or come four in a round trip (ns)."""
        spacing = -(-self.round_trip // 4)
        if not self.bdp:
            return spacing
        return min(spacing, -(-100 * (PROBE + OVERHEAD) * self.round_trip // self.bdp))

    @property
    def timeout(self) -> int:
        """Exponent of an ACK timeout beyond four round trips through full queues, and of the hardware's shortest."""
        fitted = (4 * (self.round_trip + self.queue) // _TICK).bit_length()
        least = (-(-self.hardware.ack_timeout // _TICK) - 1).bit_length() if self.hardware.ack_timeout else 0
        return min(24, max(1, fitted, least))

    def attributes(self, base: QpAttributes | None = None) -> QpAttributes:
        """`base` with the ACK timeout fitted; without a `base`, attributes with the range of PSNs fitted too."""
        if base is None:
            mpr = mpr_for(self.bdp, QpAttributes().path_mtu)
            base = QpAttributes(mpr=mpr, mpr_dest=mpr)
        return replace(base, timeout=self.timeout)


def timing(fabric: Fabric, delay: int, queue_packets: int, hardware: HardwareTiming = IDEAL) -> FabricTiming:
    """Times of `fabric` with switch queues of `queue_packets` full packets; links that do not say have `delay` ns."""
    slowest = min(link.rate_bps for link in fabric.links)
    packet = serialization(FRAME, slowest)
    round_trip = base_round_trip(fabric, delay) + 2 * hardware.pipelines(_switches(fabric))
    rate = max(sum(link.rate_bps for link in fabric.links_of(nic.name)) for nic in fabric.nics)
    window = max(16 * FRAME, 3 * rate * round_trip // 2 // 8_000_000_000)
    bdp = bandwidth_delay_product(fabric, round_trip)
    return FabricTiming(round_trip, queue_packets * packet, window, fabric.queues.trimming, bdp, hardware)


def _switches(fabric: Fabric) -> int:
    """Switches on the longest path."""
    return 1 + 2 * bool(fabric.t1_count) + 2 * bool(fabric.t2_count)


def retry_budget(attributes: QpAttributes, transport: TransportSettings) -> int:
    """How long (ns) a queue pair goes on without an answer before it fails; at least, not exactly."""
    once = _TICK << attributes.timeout
    doublings = (
        min(max(count - transport.linear_retries, 0), transport.max_backoff) for count in range(attributes.retry_count)
    )
    return sum(once << doubling for doubling in doublings)
