"""Configuration of a NIC: its addresses and ports, how paths are addressed, and the protocol's settings.

The NIC knows nothing of topology. It is given, for each destination, the entropy values it may use and a
:class:`UsidTemplate` that turns an entropy value into the outer IPv6 destination address (docs/protocol.md §5): most of
the address is constant, the plane number is copied into each uSID and the T0 uplink number into the T1's uSID.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs_types import DcqcnProfile, NsccProfile


class EvOrder(enum.Enum):
    """Which half of the entropy value is in the UDP source port (docs/protocol.md §1.3; sources disagree)."""

    LOW_IN_SOURCE_PORT = "low_in_source_port"
    HIGH_IN_SOURCE_PORT = "high_in_source_port"


class EvFormat(enum.Enum):
    """How MRC packets carry their entropy value, and with it their path (docs/protocol.md §1.3).

    In the SRv6 formats the value also determines the outer address. In the other two there is no outer header; switches
    hash (or parse) the fields that carry the value, and the bits of the value that are not sent must be zero.
    """

    SRV6 = "srv6"  # outer IPv6 with a uSID list; the value in inner flow label and UDP source port
    SRV6_SRH = "srv6_srh"  # the same with a Segment Routing Header of one segment
    STRUCTURED = "structured"  # IPv6 flow label and UDP source port: 32 bits
    UDP = "udp"  # UDP source port alone, over IPv4 or IPv6: 16 bits

    @property
    def routed(self) -> bool:
        """Whether packets have an outer header."""
        return self in (EvFormat.SRV6, EvFormat.SRV6_SRH)


class BthOrder(enum.Enum):
    """Which of the flags SE (solicited event) and M (migration) is bit 7 of BTH byte 1; sources disagree."""

    M_FIRST = "m_first"  # a test vendor's headers and two implementations
    SE_FIRST = "se_first"  # as in InfiniBand, and one dissector


class OutOfWindow(enum.Enum):
    """What a responder does with a PSN outside its window (docs/protocol.md §2; sources report both)."""

    ANSWER = "answer"  # NACK PSN_OOR_WINDOW when ahead, SACK again when behind
    DROP = "drop"  # nothing


class ProbeMark(enum.Enum):
    """State of a path after its reliability probe was answered with SKIP_ONCE (docs/protocol.md §3; disputed)."""

    SKIP = "skip"  # as after a marked data packet
    GOOD = "good"  # the probe got through, and that is all that counts


class TimestampTick(enum.Enum):
    """Unit of the transmit timestamps in TSETH (docs/protocol.md §1.6); the value is its length in ns.

    Unit bit 1 is the implementation's choice; ours is 1 us.
    """

    US = 1000
    NS128 = 128


@dataclass(frozen=True, slots=True)
class Dscp:
    """DSCP values of the traffic roles, 0..63 each (docs/protocol.md §1.10; the numbers are a deployment's choice)."""

    trimmable: int = 4
    no_trim: int = 0
    retransmit: int = 8
    trimmed: int = 12
    trimmed_lasthop: int = 16
    control: int = 46
    adaptive: int = 24  # data of RC_AR, for which switches choose among uplinks packet by packet


SPRAYING: Final = ("reactive", "oblivious")

# Smallest and largest value of the integers in TransportSettings. Times may be up to an hour.
_HOUR: Final = 3_600_000_000_000
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "sack_threshold": (1, 1 << 30),
    "bitmap_range": (1, 255),
    "max_inflight_messages": (1, 1 << 15),
    "always_skip_marks": (0, 1 << 20),
    "base_rtt": (0, _HOUR),
    "assumed_rate": (1, 1 << 50),
    "default_window": (1, 1 << 40),
    "plane_skew_limit": (1, 1 << 30),
    "reorder_fraction": (0, 1600),
    "tail_probe_min": (1, _HOUR),
    "rto_low": (1, _HOUR),
    "rto_high": (1, _HOUR),
    "recovery_delay": (0, _HOUR),
    "retransmission_pause": (0, _HOUR),
    "linear_retries": (0, 255),
    "max_backoff": (0, 25),
    "send_queue_depth": (1, 1 << 20),
    "packet_lifetime": (0, _HOUR),
    "entropy_values": (1, 4096),
    "backup_share": (2, 1 << 20),
    "ev_min_active": (0, 1 << 20),
    "probe_interval": (1, _HOUR),
    "probe_successes": (1, 1000),
    "probe_timeout": (1, _HOUR),
    "probe_spacing": (0, _HOUR),
    "flap_half_life": (1, _HOUR),
    "reverse_probe_interval": (1, _HOUR),
    "port_status_retry": (1, _HOUR),
    "port_status_max": (1, _HOUR),
    "flap_window": (0, _HOUR),
    "port_remap": (0, _HOUR),
    "slow_port_retry": (0, _HOUR),
}


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """What the specification leaves to the implementation. Times are in nanoseconds, sizes in bytes.

    Acknowledgements and receiving:

    * `sack_threshold`: a SACK is due once this many bytes have arrived; each packet counts as at least 1024.
    * `bitmap_range` (units of 128 PSNs): a packet further ahead of the cumulative PSN, though inside the offered range,
      is refused with NACK NO_BITMAP, and sent again.
    * `max_inflight_messages`: a packet of a message that far ahead of the first incomplete one is refused with NACK
      NO_RESOURCE, and sent again.
    * `always_skip_marks`: after this many consecutive ECN marks on one path a SACK reports ALWAYS_SKIP instead of
      SKIP_ONCE; 0: never.

    Congestion control (docs/congestion.md):

    * `congestion`: that of MRC: nscc (one controller for all queue pairs to a destination), fixed, none, or "": nscc if
      `base_rtt` is given, otherwise fixed.
    * `rc_congestion`: that of RC: dcqcn, fixed or none.
    * `base_rtt`: unloaded round trip of a full packet on the longest path; 0: not known.
    * `trimming`: whether switches trim.
    * `nscc`, `dcqcn`: constants of the two.
    * `assumed_rate` (b/s): rate of a port whose rate is given as 0.
    * `default_window`: the fixed window.

    Spraying and balance:

    * `spraying`: "reactive", or "oblivious": every path in turn, whatever happens on it; a mark or trim does not make
      it skip, and no path goes out of use.
    * `plane_skew_limit`: how many data packets of 4096 bytes (or as many bytes in shorter ones) a plane may be ahead of
      the slowest usable plane, on one queue pair.

    * `path_selection`: a path selection of a plugin, or "": paths take turns.
    * `plugins`: plugin files that an agent runs before it creates the NIC (docs/extending.md).

    Loss and timeouts:

    * `reorder_fraction` (percent of a smoothed RTT): minimum reorder window. A packet is lost once one sent later on
      the same path has arrived, or one sent a reorder window later on the same plane (docs/protocol.md §10.1); never
      because of what other planes deliver.
    * `tail_probe_min`: shortest probe timeout.
    * `recovery_delay`: shortest time from sending a packet that what arrived later shows to be lost until it is sent
      again; with RC from a NAK until it goes back. Packets that were trimmed or timed out do not wait.
    * `rto_low`, `rto_high`: shortest timeouts of RC_SR with at most three packets in flight, and with more (IRN, Mittal
      et al., SIGCOMM 2018, section 4.1); of RC_AR always the second.
    * `retransmission_pause`: how long an MRC queue pair sends nothing new for each packet that it sends again.
    * `linear_retries`: how often the ACK timeout is repeated before it doubles.
    * `max_backoff`: how often it doubles.

    Queue pairs:

    * `send_queue_depth`: requests in a send queue.
    * `packet_lifetime`: longest time that a packet may take to arrive; for this time after a reset, the PSNs that a
      queue pair has used are not used again (docs/protocol.md §12).

    Paths:

    * `entropy_values`: entropy values of a queue pair, several to a path where there are fewer paths than that. Where
      there are more, each path has one.
    * `backup_share`: one in this many entropy values of a path is a backup; one in this many paths of a plane where
      each has one value.
    * `ev_min_active`: minimum number of paths in a queue pair's active set.
    * `probe_interval`: time between background probes of a bad path.
    * `probe_successes`: a bad path is restored after this many of them in a row were answered.
    * `probe_timeout`: an EV probe without an answer counts as lost after this time. The next is sent then, with up to
      four times the timeout.
    * `probe_spacing`: shortest time between background probes of the whole NIC.
    * `flap_half_life`: a path that fails again after its return waits longer: each failure doubles the interval, up to
      64 times, and half of the failures are forgotten in this time.
    * `reverse_probe_interval`: how often a receiver that sends no data probes its reverse paths.

    Ports:

    * `port_status_retry`: wait before an unanswered port status update is repeated on the next plane.
    * `port_status_max`: that wait doubles up to this when each plane has had its turn.
    * `flap_window`: when a port returns, paths that went bad at most this long before it was lost are GOOD again
      without a probe.
    * `port_remap`: how long the NIC takes to leave a port that has lost its link, and sends nothing on any port; 0: no
      time. The NIC of the MRC publication takes "typically a few seconds" in production (docs/protocol.md, R3.17).
    * `slow_port_retry`: a port that is slower than the others, of the NIC or of a peer, carries no new data for this
      time and is then tried; each failed trial doubles the time, up to 64 times. 0: it stays in use.

    Raises InvalidArgumentError for a value out of range.
    """

    sack_threshold: int = 32768
    bitmap_range: int = 255
    max_inflight_messages: int = 16384
    always_skip_marks: int = 0
    congestion: str = ""
    rc_congestion: str = "fixed"
    base_rtt: int = 0
    trimming: bool = True
    nscc: NsccProfile = field(default_factory=NsccProfile)
    dcqcn: DcqcnProfile = field(default_factory=DcqcnProfile)
    assumed_rate: int = 1_000_000_000
    default_window: int = 262144
    plane_skew_limit: int = 8
    reorder_fraction: int = 25
    tail_probe_min: int = 100_000
    rto_low: int = 100_000
    rto_high: int = 320_000
    recovery_delay: int = 0
    retransmission_pause: int = 0
    linear_retries: int = 7
    max_backoff: int = 6
    send_queue_depth: int = 1024
    packet_lifetime: int = 1_000_000_000
    spraying: str = "reactive"
    path_selection: str = ""
    plugins: tuple[str, ...] = ()
    entropy_values: int = 256
    backup_share: int = 8
    ev_min_active: int = 1
    probe_interval: int = 20_000_000
    probe_successes: int = 3
    probe_timeout: int = 50_000_000
    probe_spacing: int = 500_000
    flap_half_life: int = 10_000_000_000
    reverse_probe_interval: int = 10_000_000
    port_status_retry: int = 10_000_000
    port_status_max: int = 1_000_000_000
    flap_window: int = 1_000_000_000
    port_remap: int = 0
    slow_port_retry: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidArgumentError(f"Transport setting {name} must be between {least} and {most}, not {value}.")
        if self.spraying not in SPRAYING:
            known = " or ".join(SPRAYING)
            raise InvalidArgumentError(f"Transport setting spraying must be {known}, not {self.spraying}.")

    @property
    def path_timers(self) -> PathTimers:
        """The timers of destinations that have none of their own."""
        return PathTimers(self.tail_probe_min, self.probe_interval, self.probe_timeout, self.reverse_probe_interval)


@dataclass(frozen=True, slots=True)
class PathTimers:
    """Timers (ns) that follow the round trip to a peer; each is described with `TransportSettings`."""

    tail_probe_min: int
    probe_interval: int
    probe_timeout: int
    reverse_probe_interval: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 1 <= (value := getattr(self, name)) <= _HOUR:
                raise InvalidArgumentError(f"Path timer {name} must be between 1 and {_HOUR}, not {value}.")


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """Choices that the published material leaves open or disputes (docs/protocol.md §10).

    `endpoint_op_shift` is where an endpoint response carries its operation: 2 (bits 3:2) or 4 (bits 5:4).
    `service_time`: whether an endpoint response reports the time from receiving the request to sending the response.
    The others are described with their types.
    """

    udp_port: int = 4791  # destination port of MRC and RoCEv2
    ev_order: EvOrder = EvOrder.LOW_IN_SOURCE_PORT  # where the halves of an EV are
    dscp: Dscp = field(default_factory=Dscp)  # of the traffic roles
    hop_limit: int = 64  # of outer and inner headers
    endpoint_op_shift: int = 2
    service_time: bool = True
    ev_format: EvFormat = EvFormat.SRV6  # SRv6, or plain IPv6 or UDP
    bth_order: BthOrder = BthOrder.M_FIRST  # of the bits M and SE
    out_of_window: OutOfWindow = OutOfWindow.ANSWER  # packets beyond the range of PSNs
    probe_mark: ProbeMark = ProbeMark.SKIP  # an answered reliability probe with an ECN mark
    timestamp_tick: TimestampTick = TimestampTick.US  # unit of TSETH
    transport: TransportSettings = field(default_factory=TransportSettings)


@dataclass(frozen=True, slots=True)
class EvAddressField:
    """Bits of an entropy value that are added into an address: `bits` from `ev_shift` on, at bit `shift` there."""

    ev_shift: int
    bits: int
    shift: int


@dataclass(frozen=True, slots=True)
class UsidTemplate:
    """Outer destination address of every path to one destination (docs/protocol.md §5).

    `base` is the 128-bit address with plane 0 and uplink 0. `plane_shifts` are the bit positions (0 = least
    significant) where the plane number is added in, `uplink_shift` that of the uplink number, None if the destination
    is on the same T0. `ev_plane_shift`, `ev_plane_bits` and `ev_uplink_bits` say where both are in the entropy value
    (uplink in the lowest bits). `fields` are what else of it is added in, where paths cross a T2. Bits between uplink
    and plane are spare: entropy values that differ only there share a path.

    `segment` is the address in the Segment Routing Header, where there is one: None repeats the outer destination, with
    no segment left, so that the receiver sees the path that the packet took; an address is where the last switch of the
    outer list forwards the packet to, with one segment left (RFC 8754).
    """

    base: int
    plane_shifts: tuple[int, ...]
    uplink_shift: int | None
    ev_plane_shift: int = 10
    ev_plane_bits: int = 3
    ev_uplink_bits: int = 10
    segment: bytes | None = None
    fields: tuple[EvAddressField, ...] = ()

    @property
    def spare_bits(self) -> tuple[int, int]:
        """The lowest of the entropy value's spare bits, and how many there are."""
        return self.ev_uplink_bits, max(self.ev_plane_shift - self.ev_uplink_bits, 0)

    def plane(self, ev: int) -> int:
        """Plane of an entropy value."""
        return (ev >> self.ev_plane_shift) & ((1 << self.ev_plane_bits) - 1)

    def uplink(self, ev: int) -> int:
        """T0 uplink number of an entropy value."""
        return ev & ((1 << self.ev_uplink_bits) - 1)

    def address(self, ev: int) -> bytes:
        """Outer IPv6 destination (16 bytes) of the path that `ev` names."""
        value = self.base
        plane = self.plane(ev)
        for shift in self.plane_shifts:
            value += plane << shift
        if self.uplink_shift is not None:
            value += self.uplink(ev) << self.uplink_shift
        for field_ in self.fields:
            value += (ev >> field_.ev_shift & (1 << field_.bits) - 1) << field_.shift
        return value.to_bytes(16, "big")


@dataclass(frozen=True, slots=True)
class Destination:
    """A peer NIC: its address (16 bytes), the universe of entropy values to it, and how they become addresses.

    `base_rtt` is the unloaded round trip (ns) of a full packet on the longest path to it; 0: the settings' value.
    `timers` are those that follow it; None: the settings' values.
    """

    name: str
    address: bytes
    template: UsidTemplate
    evs: tuple[int, ...]
    base_rtt: int = 0
    timers: PathTimers | None = None

    def planes(self) -> list[int]:
        """The plane of each entropy value."""
        shift, mask = self.template.ev_plane_shift, (1 << self.template.ev_plane_bits) - 1
        return [ev >> shift & mask for ev in self.evs]


@dataclass(frozen=True, slots=True)
class PortConfig:
    """One port of a NIC."""

    plane: int  # its index in NicConfig.ports too
    mac: bytes  # 6 bytes
    gateway_mac: bytes  # that of the T0's port, 6 bytes
    usid: int  # of this port, 16 bits
    rate_bps: int  # line rate, b/s
    interface: str  # the network interface in emulation


@dataclass(frozen=True, slots=True)
class PausePriorities:
    """Priorities (0..7) at which switches queue what the NIC sends: data and control packets.

    A port whose neighbour pauses one of a class's priorities (IEEE 802.1Qbb) sends no packets of that class.
    """

    data: tuple[int, ...] = (0, 1)
    control: tuple[int, ...] = (7,)


@dataclass(frozen=True, slots=True)
class NicConfig:
    """Everything that a NIC is configured with. `ports[i].plane == i`; `block` is the 32-bit uSID locator block.

    `address` is the NIC's IPv6 address, or its IPv4 address in IPv6 form (::ffff:a.b.c.d), which requires the format
    UDP. With `pause` the ports obey priority flow control; without, PAUSE frames are dropped like everything that is
    not IP.
    """

    name: str  # the host's
    address: bytes
    block: int
    ports: tuple[PortConfig, ...]
    destinations: tuple[Destination, ...]  # every NIC that there are paths to
    mtu: int = 4500  # longest IP packet on the links, bytes
    settings: ProtocolSettings = field(default_factory=ProtocolSettings)
    pause: PausePriorities | None = None
