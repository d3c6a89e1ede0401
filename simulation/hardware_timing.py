"""Times that the hardware and the libraries around a NIC take: host, PCIe, NIC, switch, collective library.

The NIC device itself takes no time; a world adds these around it. What is the same for every packet (a pipeline's
latency) lengthens the channels that leave and enter the device; what a packet occupies (a rate) is in
`core/packet_engine.h`; what lies between an application and its NIC is in `delayed_completions`; the collective library
paces itself (`mrc_lab.workloads.collectives.pacing`). The shortest recovery times of a transport become its timers
(`transport_timers`).

:data:`PROFILES` has them by name. `ideal`, the default, takes no time anywhere. docs/timing.md has the source and
certainty of each value of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from simulation.errors import SimulationError

_MOST = 1 << 60  # so that sums of times stay below the end of time


@dataclass(frozen=True, slots=True)
class HardwareTiming:
    """All times are ns, rates b/s; 0 means no time, or no limit. SimulationError for one out of range.

    Host and PCIe
        * `doorbell`: from posting until the NIC knows of the work request.
        * `dma_read`: a PCIe read by the NIC. A message waits for two in turn: its work request and its first bytes.
        * `dma_write`: from the NIC's writing a completion until the application sees it.
        * `pcie_rate`: of frames between host memory and NIC, in each direction.
    NIC
        * `message`: how long the NIC is occupied by each message.
        * `transmit`, `receive`: how long a packet takes through the NIC, each way.
        * `packet`: how long each packet occupies the NIC in its direction.
    Switch
        * `switch`: how long a packet takes through a switch, without queueing and serialization.
    Transport
        * `tail_probe`: least time without an answer after which MRC asks by a probe what is lost.
        * `recovery`: least time from sending a packet until it is sent again because of what arrived later; with RC
          from a NAK until it goes back.
        * `retransmission`: how long an MRC queue pair sends nothing new for each packet that it sends again.
        * `ack_timeout`: least ACK timeout of both transports, rounded up to 1.024 us times a power of two.
    Collective library
        * `launch`: from the call of a collective until the first chunk is sent.
        * `step`: from a chunk's arrival until it may be sent on, over and above the copy.
        * `copy_rate`: at which chunks are reduced and copied, one after the other.
    """

    doorbell: int = 0
    dma_read: int = 0
    dma_write: int = 0
    pcie_rate: int = 0
    message: int = 0
    transmit: int = 0
    receive: int = 0
    packet: int = 0
    switch: int = 0
    tail_probe: int = 0
    recovery: int = 0
    retransmission: int = 0
    ack_timeout: int = 0
    launch: int = 0
    step: int = 0
    copy_rate: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value <= _MOST:
                raise SimulationError(f"{field.name} of a timing is 0 to {_MOST} (2**60), not {value}.")

    @property
    def host(self) -> int:
        """What a message takes between application and NIC, both ways together."""
        return self.doorbell + 2 * self.dma_read + self.dma_write

    @property
    def ends(self) -> int:
        """What a packet takes through the NICs at both ends."""
        return self.transmit + self.receive

    @property
    def delays_completions(self) -> bool:
        """Whether anything lies between applications and their NICs."""
        return bool(self.host or self.message)

    def pipelines(self, switches: int) -> int:
        """What a packet takes through all devices on its way, so many switches among them."""
        return self.ends + switches * self.switch

    @property
    def longest_link(self) -> int:
        """The most that pipelines add to a link's delay, as the mean of both directions."""
        return max(self.switch, -(-(self.ends + self.switch) // 2))


IDEAL = HardwareTiming()

PUBLISHED_TESTBED = HardwareTiming(
    doorbell=250,
    dma_read=550,
    dma_write=400,
    pcie_rate=900 * 10**9,
    message=10,
    packet=4,
    transmit=1_672,
    receive=1_672,
    switch=585,
    tail_probe=240_000,
    recovery=100_000,
    ack_timeout=4_194_304,
    step=1_600,
    copy_rate=500 * 10**9,
)

# The cluster of the published all-reduces has other NICs, and its library two protocols, for small and for large sizes.
PUBLISHED_RINGS = replace(PUBLISHED_TESTBED, transmit=750, receive=750, retransmission=12_500, step=3_200)
PUBLISHED_LARGE_RINGS = replace(
    PUBLISHED_RINGS, tail_probe=300_000, recovery=170_000, step=21_800, copy_rate=2_600 * 10**9
)

PROFILES: Mapping[str, HardwareTiming] = MappingProxyType(
    {
        "ideal": IDEAL,
        "published_testbed": PUBLISHED_TESTBED,
        "published_rings": PUBLISHED_RINGS,
        "published_large_rings": PUBLISHED_LARGE_RINGS,
    }
)
"""Timings by name."""
