"""Interfaces through which parts of a queue pair or peer see the rest: the connection, and the few things to request.

A requester and a responder can be created, tested and read without a queue pair: they get a ``Connection``, which is
plain data, and an *owner*, which arms the timer, queues at ports and ends the connection. Owners are abstract classes
rather than Protocols because mypyc compiles their method calls to jumps, but looks up a Protocol's methods by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import trait

from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.stats import ArrivalCounts, QpStats
from mrc_host.transport.window import WindowUser
from mrc_host.verbs_types import ALL_PLANES, CompletionStatus, QpAttributes


class Connection:
    """A queue pair's connection, from RTR to RESET: both QPNs, attributes, the NIC's shared services, its counters."""

    __slots__ = ("attributes", "nic", "pd", "qpn", "remote_qpn", "stats")

    def __init__(
        self, nic: NicContext, qpn: int, remote_qpn: int, pd: int, attributes: QpAttributes, stats: QpStats
    ) -> None:
        self.nic = nic
        self.qpn = qpn
        self.remote_qpn = remote_qpn
        self.pd = pd  # protection domain
        self.attributes = attributes
        self.stats = stats


@trait
class RequesterOwner(ABC):
    """A queue pair, as its requester sees it."""

    __slots__ = ()

    @abstractmethod
    def arm(self, when: int) -> None:
        """Call the requester's ``on_timer`` at `when`, or earlier if it is already armed for an earlier time."""

    @abstractmethod
    def armed(self) -> bool:
        """Whether the timer runs."""

    @abstractmethod
    def offer_data(self) -> None:
        """There may be data to send: queue at the ports where it may leave."""

    @abstractmethod
    def enter_error(self, status: CompletionStatus, reason: str, now: int) -> None:
        """End the connection: the oldest request fails with `status`."""


@trait
class ResponderOwner(ABC):
    """A queue pair, as its responder sees it."""

    __slots__ = ()

    @abstractmethod
    def offer_control(self) -> None:
        """An acknowledgement is due: queue at a port."""

    @abstractmethod
    def accepts_writes(self) -> bool:
        """Whether the peer may write through this queue pair, as its attributes say at present."""

    @abstractmethod
    def has_cq_room(self) -> bool:
        """Whether the receive CQ has room for one more; if not, ``on_cq_room`` is called once it has."""

    @abstractmethod
    def complete_receive(self, length: int, imm: int, solicited: bool) -> None:
        """Complete a WRITE_WITH_IMM of `length` bytes, for which there is room."""

    @abstractmethod
    def refuse(self, syndrome: int, reason: str) -> None:
        """The next message is not allowed, and a NAK with `syndrome` is due: end the connection."""

    @abstractmethod
    def fail_responder(self, reason: str) -> None:
        """The peer violated the protocol: end the connection."""


@trait
class MrcRequesterOwner(RequesterOwner, WindowUser):
    """An MRC queue pair, as its requester sees it."""

    __slots__ = ()

    @abstractmethod
    def offer_control(self) -> None:
        """A probe is due: queue at the ports where it may leave."""

    @abstractmethod
    def queued_ports(self) -> int:
        """Mask of the ports where this queue pair is queued with data."""


@trait
class DataToSend(ABC):
    """A requester, as its timeouts see it."""

    __slots__ = ()

    @abstractmethod
    def open_planes(self) -> int:
        """Planes on which packets may leave; 0 when all are down or denied."""

    @abstractmethod
    def ports(self) -> int:
        """Planes on which the next packet may leave; 0 when there is none or a limit is reached."""

    @abstractmethod
    def pending(self) -> bool:
        """Whether there is anything to send, whether or not it may leave."""

    @abstractmethod
    def has_work(self) -> bool:
        """Whether there is anything to send that the peer lets begin."""


class ReceivingHalf(ABC):
    """A responder, as its queue pair sees it."""

    __slots__ = ("counts",)

    def __init__(self, counts: ArrivalCounts) -> None:
        self.counts = counts  # of what the datapath in C has placed

    @abstractmethod
    def psns_used(self) -> int:
        """How many PSNs there are up to the highest one accepted."""

    @abstractmethod
    def stop_placing(self) -> None:
        """The queue pair is in ERROR: the datapath in C places nothing more."""

    @abstractmethod
    def close(self) -> None:
        """The queue pair leaves this connection."""

    @abstractmethod
    def repeat_nak(self) -> bool:
        """The peer still sends after the queue pair ended: have the NAK sent again; False if none ended it."""

    @abstractmethod
    def on_cq_room(self) -> None:
        """The receive CQ was polled, so completions may fit again."""

    @abstractmethod
    def settle_stats(self, now: int) -> None:
        """Add durations that still run up to `now`."""


@trait
class PeerSource(ABC):
    """What sends packets to a peer beside its queue pairs, as the parts of the peer see it."""

    __slots__ = ()

    @abstractmethod
    def offer(self) -> None:
        """There may be something to send: queue at the ports where it may leave."""

    @abstractmethod
    def arm(self, when: int) -> None:
        """Call ``on_timer`` at `when`, or earlier if it is already armed for an earlier time."""


@trait
class PathMonitor(ABC):
    """Measures the paths to a peer for all queue pairs."""

    __slots__ = ()

    @abstractmethod
    def answered(self, index: int, port: int, rtt: int, weight: int, now: int) -> tuple[int, int]:
        """A packet of `weight` bytes on path `index` was answered at `port` after `rtt` ns.

        Returns the round trip that this would have been without queues, and its mean over all paths.
        """

    @abstractmethod
    def trimmed(self, index: int, rtt: int) -> tuple[int, int]:
        """The same for a trimmed packet, which is reported without waiting in the queue where it was trimmed."""


@trait
class AnswerPaths(ABC):
    """Paths to a peer, for its acknowledgements."""

    __slots__ = ()

    @abstractmethod
    def port(self, anywhere: bool = False, among: int = ALL_PLANES) -> int:
        """Mask of the one port that should carry the next answer, of those in the mask `among`; 0 when none can.

        `anywhere`: it is one of many that carry the same information, and may try ports that lost earlier ones.
        """

    @abstractmethod
    def works(self, index: int, now: int) -> None:
        """A packet on path `index` is known to have arrived."""

    @abstractmethod
    def reverse_path(self, plane: int, now: int) -> int:
        """Index of a path for an acknowledgement on `plane`; -1 when there is none."""

    @abstractmethod
    def random_path(self, plane: int) -> int:
        """Index of any path of `plane`, whether or not it is known to work; -1 when there is none."""

    @abstractmethod
    def acknowledging(self, now: int) -> None:
        """A SACK was sent."""

    @abstractmethod
    def doubt_reverse_paths(self, probed: bool = False) -> None:
        """Answers seem to be lost: the peer repeated what was acknowledged, or `probed` for what it should know."""

    @abstractmethod
    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """The frame that carries `body` on path `index`, in traffic class `kind`."""
