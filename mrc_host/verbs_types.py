"""Types of the NIC's verbs: what applications request, and what they get back.

Everything here is a frozen dataclass or an enum, so that nothing changes it on its way between the NIC device, the host
agent and the application's process. Names follow the verbs API that RDMA programmers know; where MRC differs (no
receive queue, write-only), the docstring says so. Sizes are bytes, times integer nanoseconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Access(enum.IntFlag):
    """Rights of a memory region."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2


class QpType(enum.Enum):
    """Transport service of a queue pair."""

    MRC = "mrc"  # sprays every write over the active set of paths (docs/protocol.md §2, §3)
    RC = "rc"  # RoCEv2 reliable connection: one path, go-back-N; a baseline, as are the following
    RC_SR = "rc_sr"  # the same with selective repeat
    RC_AR = "rc_ar"  # selective repeat by timeout alone, over paths that switches choose for each packet
    UET = "uet"  # Ultra Ethernet's: sprays as MRC does, by entropy values that came back, and knows no paths

    @property
    def source_routed(self) -> bool:
        """Whether an entropy value names the path of each packet; otherwise the switches choose it."""
        return self in (QpType.MRC, QpType.UET)


class QpState(enum.Enum):
    """Life of a queue pair: RESET, INIT, RTR (ready to receive), RTS (ready to send), ERROR."""

    RESET = "reset"
    INIT = "init"
    RTR = "rtr"
    RTS = "rts"
    ERROR = "error"


class WrOpcode(enum.Enum):
    """The two operations of MRC (docs/protocol.md §2): no READ, SEND or ATOMIC exists."""

    WRITE = "write"
    WRITE_WITH_IMM = "write_with_imm"


class CompletionOpcode(enum.Enum):
    """Which side of an operation a completion reports."""

    WRITE = "write"  # the requester's own WRITE or WRITE_WITH_IMM is acknowledged
    RECV_WRITE_WITH_IMM = "recv_write_with_imm"  # a peer's WRITE_WITH_IMM and all before it are in memory


class CompletionStatus(enum.Enum):
    """Outcome of a work request. Any status but SUCCESS leaves the queue pair in ERROR."""

    SUCCESS = "success"
    LOCAL_PROTECTION_ERROR = "local_protection_error"  # local range outside a region of this protection domain
    REMOTE_ACCESS_ERROR = "remote_access_error"  # peer refused: wrong rkey, outside the region, no REMOTE_WRITE
    REMOTE_INVALID_REQUEST_ERROR = "remote_invalid_request_error"  # no `remote_write` there, or a malformed request
    REMOTE_OPERATION_ERROR = "remote_operation_error"  # peer could not carry it out (e.g. too many WRITE_WITH_IMM)
    RETRY_EXCEEDED = "retry_exceeded"  # the retry budget ran out without an acknowledgement
    FLUSHED = "flushed"  # queued behind a failed request, or the queue pair was destroyed


class PathState(enum.Enum):
    """State of one entropy value (docs/protocol.md §3)."""

    GOOD = "good"
    SKIP = "skip"
    ASSUMED_BAD = "assumed_bad"
    DENIED = "denied"


class PathReason(enum.Enum):
    """Why a path changed state."""

    ECN = "ecn"
    TRIMMED = "trimmed"
    LOSS = "loss"  # inferred from SACKs on the same path or plane
    TIMEOUT = "timeout"
    PEER_SKIP = "peer_skip"  # responder sent ALWAYS_SKIP
    PROBE = "probe"  # enough background probes came back
    ARRIVED = "arrived"  # the packet whose loss had retired the path, or a later one, arrived after all
    ROTATION = "rotation"  # SKIP is over
    PORT_UP = "port_up"
    CONTROLLER = "controller"


class EvMode(enum.Enum):
    """Where the entropy values of a profile come from (docs/protocol.md §3)."""

    AUTO = "auto"  # the NIC's own: those it was given for the destination
    EXPLICIT = "explicit"  # a list
    GENERATED = "generated"  # made from fields


@dataclass(frozen=True, slots=True)
class EvField:
    """One field of a generated entropy value, `width` bits (1..32). The first field is the most significant.

    The bits of `mask` vary, the others are those of `init_val`; values outside `minimum`..`maximum` (of the whole
    field) are left out. All four are numbers of `width` bits.
    """

    width: int
    init_val: int
    minimum: int
    maximum: int
    mask: int


@dataclass(frozen=True, slots=True)
class EvProfile:
    """Which entropy values a queue pair may use; fixed for its life (docs/protocol.md §11.2).

    `evs` (32 bit, all different, up to 4096) is given only for EXPLICIT, `fields` (together at most 32 bits) only for
    GENERATED. `size` (1..4096) is how many values to take, spread equally over planes: None means all for AUTO and 256
    for GENERATED. `ev_min_active` (1..4096) is the minimum that stays in the active set, however bad.
    """

    mode: EvMode = EvMode.AUTO
    evs: tuple[int, ...] = ()
    fields: tuple[EvField, ...] = ()
    size: int | None = None
    ev_min_active: int = 1


@dataclass(frozen=True, slots=True)
class MemoryRegionInfo:
    """A registered region, as its owner passes it to peers. `address` is what work requests call its first byte."""

    address: int
    length: int
    lkey: int
    rkey: int


@dataclass(frozen=True, slots=True)
class QpAddress:
    """What two applications exchange out of band to connect: the NIC's IPv6 address (16 bytes) and a QPN (24 bit).

    `psn` (24 bit) is the first that the queue pair sends in its present life (docs/protocol.md §12); without it the
    other end needs `receive_psn`.
    """

    address: bytes
    qpn: int
    psn: int | None = None


ALL_PLANES = (1 << 32) - 1  # as a mask
MPR_UNIT = 128  # PSNs
MAX_RECEIVES = 4096  # posted receives of a queue pair
MAX_SGE = 16  # pieces of local memory in one work request
MAX_INLINE = 512  # bytes that a work request may carry itself


@dataclass(frozen=True, slots=True)
class Sge:
    """A piece of registered local memory (verbs: scatter/gather entry)."""

    address: int
    lkey: int
    length: int


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """One WRITE or WRITE_WITH_IMM of `length` bytes (0..2**32-1) from local to remote memory.

    `local_address`/`lkey` name registered local memory, `remote_address`/`rkey` the peer's; without bytes none of them
    matters. `imm` (32 bit) is given
    only for WRITE_WITH_IMM. An unsignaled request completes silently unless it fails. `solicited` sets SE in the last
    packet of an MRC WRITE_WITH_IMM, for receivers that want to be notified of such completions only.

    The bytes, `length` in total, may come from elsewhere: from 2 to 16 pieces of memory, `sges`, in this order; or, up
    to 512, from the request itself (`inline`), so that nothing need be registered or kept until it completes. Then
    `local_address` and `lkey` are not used.
    """

    wr_id: int
    opcode: WrOpcode
    local_address: int
    lkey: int
    length: int
    remote_address: int
    rkey: int
    imm: int | None = None
    signaled: bool = True
    solicited: bool = False
    sges: tuple[Sge, ...] = ()
    inline: bytes | None = None

    def describes_its_bytes(self) -> bool:
        """Whether `sges` and `inline`, if given, are within their limits and as long as `length` says."""
        if self.inline is not None:
            return not self.sges and len(self.inline) == self.length <= MAX_INLINE
        if not self.sges:
            return True
        lengths = [piece.length for piece in self.sges]
        return 2 <= len(lengths) <= MAX_SGE and min(lengths) >= 0 and sum(lengths) == self.length


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion queue entry. `imm` is set only for RECV_WRITE_WITH_IMM; `reason` is empty on success.

    `solicited`: the peer's WRITE_WITH_IMM was sent with SE. `signaled` is False only for the failure of an unsignaled
    request, which is reported although its success would not have been.
    """

    wr_id: int
    qpn: int
    opcode: CompletionOpcode
    status: CompletionStatus
    byte_len: int
    imm: int | None = None
    reason: str = ""
    solicited: bool = False
    signaled: bool = True


@dataclass(frozen=True, slots=True)
class QpAttributes:
    """Attributes of a queue pair, set before it may send (docs/protocol.md §2).

    `mpr` is the advertised range of PSNs in units of 128 (1..255), `max_wimm` the number of WRITE_WITH_IMM the peer may
    have in flight here. `timeout` is the exponent of the ACK timeout 1.024 us * 2**timeout (1..24; MRC waits longer
    where measured round-trip times require it), `retry_count` the consecutive timeouts before the queue pair fails
    (255: never), of which the first `linear_retries` (None: the NIC's number) do not double the timeout. `mpr_dest` and
    `max_wimm_dest` are `mpr` and `max_wimm` of the peer. `congestion_window` is the fixed window in bytes, None for the
    profile's default. `active_paths` limits the active set (None: every path but the backups).

    `ev_profile` is the number of an EV profile (0: the NIC's default, AUTO), `cc_profile` the name of a congestion
    control ("": the NIC's default). `dynamic_mpr`, in units of 128 PSNs, lets the range accepted here follow the
    receiver and the range used for sending follow the peer, up to this cap, when both ends have it (0: off).
    `trim_nack` says that this end answers trimmed packets with NACKs, `trim_nack_dest` that the peer does; without
    that, nothing is sent as trimmable.

    `num_qps_per_peer`, `num_send_peers` and `num_remote_recv_peers` (0..65535, 0: not known) are hints: how many queue
    pairs share the links to this peer, to how many peers this NIC sends at a time, and how many send to the peer (the
    incast to expect). NSCC starts with the share of its window that they imply, and unless `active_paths` is given, the
    active set is two such windows of packets.

    `remote_write` says whether the peer may write through this queue pair, whatever regions allow (verbs:
    qp_access_flags). Without it the peer's next request fails with REMOTE_INVALID_REQUEST_ERROR, and the connection
    ends. It may change in each step, and in INIT and RTS at any time.

    `send_psn` and `receive_psn` are the first PSNs of the two directions, for one life. With None the NIC chooses the
    first and takes the second from the peer's `QpAddress`, which it may not contradict. A RESET returns all others to
    what they were when the queue pair was created (docs/verbs.md, "Lives of a queue pair"). `path_mtu` is
    256, 512, 1024, 2048, 4096 or any multiple of 4 that fits the NIC's MTU. `udp_sport` is the UDP source port of an RC
    queue pair, by which ECMP chooses its path (0: from a hash of both ends); MRC's is part of its entropy values.
    `planes` is a mask of the planes on which the queue pair sends data and answers, whatever its EV profile; queue
    pairs with different masks do not share a congestion window.
    """

    path_mtu: int = 4096
    mpr: int = 8
    mpr_dest: int = 8
    max_wimm: int = 128
    max_wimm_dest: int = 128
    timeout: int = 14
    retry_count: int = 32
    linear_retries: int | None = None
    congestion_window: int | None = None
    active_paths: int | None = None
    send_psn: int | None = None
    receive_psn: int | None = None
    ev_profile: int = 0
    cc_profile: str = ""
    dynamic_mpr: int = 0
    trim_nack: bool = True
    trim_nack_dest: bool = True
    num_qps_per_peer: int = 0
    num_send_peers: int = 0
    num_remote_recv_peers: int = 0
    udp_sport: int = 0
    planes: int = ALL_PLANES
    remote_write: bool = True


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a NIC can do at most: verbs' device attributes, and those of MRC.

    `max_send_wr` and `max_recv_wr` are requests of one queue pair, `max_cqe` entries of one completion queue, `max_msg`
    bytes of a write, `path_mtu` and `max_inline` bytes, `max_sge` pieces of memory. `max_mpr` is in units of
    `mpr_resolution` PSNs. READ, SEND and atomic operations do not exist here.
    """

    ports: int
    path_mtu: int
    max_msg: int
    max_send_wr: int
    max_recv_wr: int
    max_sge: int
    max_inline: int
    max_cqe: int
    max_wimm: int
    max_mpr: int
    mpr_resolution: int


@dataclass(frozen=True, slots=True)
class QpInfo:
    """A queue pair as it is now.

    `attributes` are those in force; their first PSNs are those of the present life, `receive_psn` None as long as it is
    not known. `remote` is the other end, None unless connected; `receives` how many receives are posted.
    """

    type: QpType
    state: QpState
    attributes: QpAttributes
    remote: QpAddress | None
    pd: int
    send_cq: int
    recv_cq: int
    receives: int


@dataclass(frozen=True, slots=True)
class PathInfo:
    """One path of a queue pair: its entropy value, plane, state, and whether it is in the active set.

    The counters are packets since the queue pair was connected: `sent` (data, retransmissions, reliability probes),
    `lost` (declared lost, for any reason), `marked` (SACKs with SKIP_ONCE), `trimmed` (NACKs with TRIMMED, not
    TRIMMED_LASTHOP). `rtt` is the round-trip time in ns of the latest packet on the path that caused a SACK, or 0. All
    are zero for RC. `evs` are those of the path's entropy values that the queue pair uses, `ev` the first of the path;
    `skipped` of them are in SKIP.
    """

    ev: int
    plane: int
    state: PathState
    active: bool
    sent: int = 0
    lost: int = 0
    marked: int = 0
    trimmed: int = 0
    rtt: int = 0
    evs: tuple[int, ...] = ()
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class PathEvent:
    """A path changed state at `time`.

    `first_loss_time` is when the earliest packet known to be lost on it was sent (None if no loss caused the change).
    """

    time: int
    qpn: int
    ev: int
    plane: int
    old: PathState
    new: PathState
    reason: PathReason
    first_loss_time: int | None = None


@dataclass(frozen=True, slots=True)
class PortEvent:
    """A NIC port lost or regained its link at `time`; `local` is False when a peer reported its own port."""

    time: int
    port: int
    up: bool
    local: bool
    peer: bytes = b""


@dataclass(frozen=True, slots=True)
class SlowPortEvent:
    """At `time` a port turned out to be slower than the NIC's others, or, with `slow` False, to be so no longer.

    Planes carry equal loads, so MRC sends no faster on the others. `local` is False when it is the port of NIC `peer`,
    or its plane of the fabric.
    """

    time: int
    port: int
    slow: bool
    local: bool
    peer: bytes = b""


@dataclass(frozen=True, slots=True)
class QpEvent:
    """A queue pair entered ERROR at `time` for `reason`."""

    time: int
    qpn: int
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeEvent:
    """An endpoint probe was answered, or timed out (`rtt` and `port` None), at `time` (docs/protocol.md §11.5).

    `probe_id` is what the command returned, `ev` and `plane` the path it took, `port` where the answer arrived, `rtt`
    the nanoseconds from sending the request to receiving the answer. `service_time_subtracted`: whether the responder's
    processing time, as it reported it, was subtracted.
    """

    time: int
    probe_id: int
    peer: bytes
    ev: int
    plane: int
    port: int | None = None
    rtt: int | None = None
    service_time_subtracted: bool = False


AsyncEvent = PathEvent | PortEvent | SlowPortEvent | QpEvent | ProbeEvent


@dataclass(frozen=True, slots=True)
class PortState:
    """A port of this NIC, or (`local` False) of a peer as last reported. `rate_bps` is 0 if not known."""

    port: int
    up: bool
    local: bool
    rate_bps: int = 0


@dataclass(frozen=True, slots=True)
class DestinationInfo:
    """A peer NIC to which this one has paths: name, address (16 bytes), and an entropy value and plane of each path.

    A path has `per_path` entropy values, which differ in the bits from `spare_shift` on: any of them names the path,
    and `evs` has the first, where these bits are 0.
    """

    name: str
    address: bytes
    evs: tuple[int, ...]
    planes: tuple[int, ...]
    per_path: int = 1
    spare_shift: int = 0

    def all_evs(self) -> dict[int, int]:
        """Every entropy value that queue pairs use by default, and the first of its path."""
        return {ev | number << self.spare_shift: ev for number in range(self.per_path) for ev in self.evs}


@dataclass(frozen=True, slots=True)
class DeniedPath:
    """A path that a controller has denied."""

    peer: bytes
    ev: int


@dataclass(frozen=True, slots=True)
class QpCounters:
    """Counters of one queue pair since creation. They count data packets unless the name says otherwise."""

    data_sent: int = 0  # first transmissions
    retransmitted: int = 0
    spurious_retransmitted: int = 0  # retransmitted although the first copy had arrived
    lost: int = 0  # declared lost by SACK, NACK or timeout
    late: int = 0  # of these, arrived after all, before they were sent again
    timeouts: int = 0
    data_received: int = 0
    duplicates_received: int = 0
    out_of_order_received: int = 0
    acks_sent: int = 0  # SACK, NACK and transport ACK
    acks_received: int = 0
    probes_sent: int = 0
    bytes_completed: int = 0


@dataclass(frozen=True, slots=True)
class NsccProfile:
    """NSCC constants that a deployment may set; None derives them (docs/congestion.md). Times in ns, sizes in bytes.

    Names are those of the control API.
    """

    disable_qa: bool = False  # no quick adaptation
    adjust_bytes_threshold: int | None = None  # the collected increase is added after this many bytes ...
    adjust_period_threshold: int | None = None  # ... or this time
    base_rtt: int | None = None  # instead of the links': longest path, one full packet, no queue
    base_rtt_floor: int | None = None  # shortest round-trip time that a sample may have
    reference_rtt: int | None = None  # round-trip time of the network that the constants belong to
    clear_delay: int | None = None  # queueing delay that counts as none
    alpha: float | None = None  # proportional increase, bytes per ns below the target
    eta: float | None = None  # bytes added in each period, whatever the delay
    fi: float | None = None  # fair increase, bytes per round trip
    fi_scale: float | None = None  # fast increase, bytes per byte received
    gamma: float | None = None  # 0..1: weight of the excess delay in a decrease
    max_md_jump: float | None = None  # 0..1: smallest factor of one decrease
    max_cwnd: int | None = None  # largest window, and the first
    qa_gate: int | None = None  # quick adaptation needs fewer than window >> qa_gate bytes to arrive ...
    qa_threshold: int | None = None  # ... and a trim, a loss or this delay
    target_delay: int | None = None  # queueing delay aimed at


@dataclass(frozen=True, slots=True)
class DcqcnProfile:
    """DCQCN constants that a deployment may set; None takes them from `constants` and the line rate.

    `constants` names a set (docs/congestion.md): "connectx", the defaults of a vendor's NICs, or "sigcomm2015", those
    that were published with DCQCN. Rates are in bit/s, times in ns, sizes in bytes. Both ends need the same
    `cnp_interval`: the receiver applies it.
    """

    constants: str = "connectx"
    min_rate: int | None = None  # the rate is never below
    additive_rate: int | None = None  # what a step adds after fast recovery
    hyper_rate: int | None = None  # the same, times their number, once timer and bytes both have
    increase_bytes: int | None = None  # a step for this many bytes sent
    increase_interval: int | None = None  # a step for this time
    alpha_interval: int | None = None  # alpha decays in this time without a CNP
    cnp_interval: int | None = None  # shortest time between a receiver's CNPs
    gain: float | None = None  # 0..1: weight of a new sample in alpha
    fast_steps: int | None = None  # steps of fast recovery
    keep_target: bool | None = None  # only a CNP after a grown rate sets the target


@dataclass(frozen=True, slots=True)
class CcProfile:
    """A congestion control with its own constants, which queue pairs can use by name (docs/protocol.md §11.6).

    `algorithm` is the name of an existing one. `nscc` replaces constants of NSCC and `dcqcn` those of DCQCN, as the
    NIC's settings do (only those settings determine how often it sends CNPs). `window` in bytes is a fixed window, or
    the limit of a rate-based one; None is the NIC's.
    """

    algorithm: str = "nscc"
    nscc: NsccProfile = field(default_factory=NsccProfile)
    dcqcn: DcqcnProfile = field(default_factory=DcqcnProfile)
    window: int | None = None
