"""One half of an RC queue pair by itself: what surrounds it, and its frames taken apart."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.peer import FirstNumbers, Peer
from mrc_host.transport.queue_pair_interfaces import Connection, RequesterOwner, ResponderOwner
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.requester import RcRequester
from mrc_host.transport.roce.responder import RcResponder
from mrc_host.transport.work import SendQueue
from mrc_host.verbs_types import Access, Completion, CompletionStatus, WorkRequest, WrOpcode
from mrc_host.wire import headers
from mrc_host.wire.psn import MASK
from tests.mrc_host.nic_world import MS, address
from tests.mrc_host.transport.parts import QPN, REMOTE_QPN, connection

MTU = 1024
FIRST = 100  # first PSN
TIMEOUT = 1024 << 4
BTH = 62  # where it begins: Ethernet 14, IPv6 40, UDP 8
ICRC = 4
FAR_ADDRESS = 0x7000_0000_0000
FAR_RKEY = 0xABCD


def path_of(given: Connection) -> RcPath:
    return RcPath(given.nic, Peer(given.nic, given.nic.config.destinations[0], FirstNumbers(0, 0)), QPN, REMOTE_QPN)


@dataclass(frozen=True)
class Packet:
    """One frame that a requester sent."""

    frame: bytes

    @property
    def opcode(self) -> int:
        return self.frame[BTH]

    @property
    def psn(self) -> int:
        return int.from_bytes(self.frame[BTH + 9 : BTH + 12], "big")

    @property
    def asks(self) -> bool:
        """Whether it requests an acknowledgement."""
        return bool(self.frame[BTH + 8] & headers.ACK_REQUEST >> 24)

    def payload(self, start: int) -> bytes:
        """What comes after `start` bytes of headers, without padding."""
        pad = self.frame[BTH + 1] >> headers.PAD_SHIFT & 3
        return self.frame[BTH + start : len(self.frame) - ICRC - pad]


class RequesterQp(RequesterOwner):
    """Notes what a requester asks of its queue pair; its timer runs until a test lets it expire."""

    def __init__(self) -> None:
        self.timer_at = 0
        self.offered = 0
        self.errors: list[tuple[CompletionStatus, str]] = []

    def arm(self, when: int) -> None:
        self.timer_at = min(self.timer_at, when) if self.timer_at else when

    def armed(self) -> bool:
        return self.timer_at != 0

    def offer_data(self) -> None:
        self.offered += 1

    def enter_error(self, status: CompletionStatus, reason: str, now: int) -> None:
        self.errors.append((status, reason))


@dataclass
class Sender:
    """A requester whose peer is played by the test."""

    connection: Connection
    qp: RequesterQp
    requester: RcRequester
    path: RcPath
    sends: SendQueue
    cq: NicCompletionQueue
    buffer: bytes
    lkey: int
    address: int
    now: int = 10 * MS
    posted: int = 0
    done: list[Completion] = field(default_factory=list)

    def write(self, length: int, *, imm: int | None = None) -> None:
        """Post a write of the first bytes of the buffer."""
        opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
        self.sends.post(WorkRequest(self.posted, opcode, self.address, self.lkey, length, FAR_ADDRESS, FAR_RKEY, imm))
        self.posted += 1

    def drain(self, limit: int = 1000) -> list[Packet]:
        """All that may leave now."""
        out: list[Packet] = []
        while len(out) < limit and (frame := self.requester.transmit(self.now)) is not None:
            out.append(Packet(frame))
        return out

    def psns(self, limit: int = 1000) -> list[int]:
        return [packet.psn for packet in self.drain(limit)]

    def ack(self, psn: int, syndrome: int = headers.SYNDROME_ACK) -> None:
        self.requester.acks.on_ack(psn & MASK, syndrome, self.now)

    def expire(self) -> None:
        """Let time pass until the timer expires, also where that changes nothing but when it does so next."""
        assert self.qp.timer_at
        self.now = max(self.now, self.qp.timer_at)
        self.qp.timer_at = 0
        due = self.requester.on_timer(self.now)
        if due:
            self.qp.arm(due)

    def expire_fully(self) -> int:
        """Let time pass until a timeout is counted; how long that took."""
        start, counted = self.now, self.connection.stats.timeouts
        while self.connection.stats.timeouts == counted:
            self.expire()
        return self.now - start

    def completed(self) -> list[int]:
        """wr_id of the requests done so far."""
        self.done += self.cq.poll(1000)
        return [completion.wr_id for completion in self.done]


def sender(
    attributes: dict[str, object] | None = None, *, first_psn: int = FIRST, window: int = 1 << 20, **settings: object
) -> Sender:
    """`settings` are of the transport; the window is a fixed one unless they name a congestion control."""
    given = connection({"path_mtu": MTU, "timeout": 4, "congestion_window": window, **(attributes or {})}, **settings)
    data = random.Random(7).randbytes(64 * MTU)
    region = given.nic.memory.register(given.pd, memoryview(bytearray(data)), Access.LOCAL_WRITE)
    cq = NicCompletionQueue(1, 256, set(), set())
    sends = SendQueue(QPN, given.pd, cq, given.nic.memory, 256)
    qp, path = RequesterQp(), path_of(given)
    requester = RcRequester(qp, given, path, sends, first_psn)
    return Sender(given, qp, requester, path, sends, cq, data, region.lkey, region.address)


class ResponderQp(ResponderOwner):
    """Notes what a responder asks of its queue pair."""

    def __init__(self) -> None:
        self.offered = 0
        self.room = True
        self.received: list[tuple[int, int]] = []
        self.refused: list[int] = []  # syndromes

    def offer_control(self) -> None:
        self.offered += 1

    def accepts_writes(self) -> bool:
        return True

    def has_cq_room(self) -> bool:
        return self.room

    def complete_receive(self, length: int, imm: int, solicited: bool) -> None:
        assert not solicited, "RC has no solicited events here"
        self.received.append((length, imm))

    def refuse(self, syndrome: int, reason: str) -> None:
        self.refused.append(syndrome)

    def fail_responder(self, reason: str) -> None:
        raise AssertionError(reason)


@dataclass
class Receiver:
    """A responder whose peer is played by the test."""

    connection: Connection
    qp: ResponderQp
    responder: RcResponder
    buffer: bytearray
    address: int
    rkey: int
    lkey: int

    def answers(self) -> list[tuple[int, int, int]]:
        """Syndrome, PSN and MSN of what it wants to send now."""
        out: list[tuple[int, int, int]] = []
        while (frame := self.responder.transmit()) is not None:
            *_, psn, last = headers.aeth.unpack(frame[BTH:-ICRC])
            out.append((last >> 24, psn, last & 0xFFFFFF))
        return out


def receiver(*, first_psn: int = FIRST, access: Access = Access.LOCAL_WRITE | Access.REMOTE_WRITE) -> Receiver:
    given = connection({"path_mtu": MTU})
    buffer = bytearray(16 * MTU)
    region = given.nic.memory.register(given.pd, memoryview(buffer), access)
    qp = ResponderQp()
    responder = RcResponder(qp, given, path_of(given), address(1), first_psn)
    return Receiver(given, qp, responder, buffer, region.address, region.rkey, region.lkey)
