"""NICs joined by wires in memory, under a clock that moves from event to event.

``World`` plays the fabric of a multi-plane Clos: a frame that leaves port p of one NIC reaches port p of the NIC its
inner address names, after that path's delay, with the uSID list shifted as switches would have done. ``Faults``
decides from its seed what happens on the way: loss, duplication, delay, corruption, blackholed paths, ECN marks,
trims. All hooks are plain attributes, so a test may change them while time stands still.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mrc_host.config import Destination, NicConfig, PortConfig, ProtocolSettings, TransportSettings, UsidTemplate
from mrc_host.nic import Nic
from mrc_host.transport.peer import Peer
from mrc_host.verbs_types import (
    Access,
    Completion,
    MemoryRegionInfo,
    PathEvent,
    QpAttributes,
    QpType,
    WorkRequest,
    WrOpcode,
)

BLOCK = 0xFC000000
US = 1_000
MS = 1_000_000
UPLINK_SHIFT = 64  # of the T1's uSID
INNER = 54
ALL_RIGHTS = Access.LOCAL_WRITE | Access.REMOTE_WRITE


def address(number: int) -> bytes:
    """Inner address of NIC `number`."""
    return bytes.fromhex("fd00006d7263") + bytes(9) + bytes([number + 1])


def nic_usid(plane: int, number: int) -> int:
    return 0x6000 | plane << 10 | number


def template(number: int) -> UsidTemplate:
    """T0, T1, T0', NIC `number`: plane in every uSID, uplink in the T1's."""
    base = BLOCK << 96 | 0x2000 << 80 | 0x4000 << 64 | 0x2001 << 48 | (0x6000 | number) << 32
    return UsidTemplate(base, plane_shifts=(90, 74, 58, 42), uplink_shift=UPLINK_SHIFT)


def make_config(
    number: int,
    nics: int,
    planes: int,
    uplinks: int,
    transport: TransportSettings | None = None,
    settings: ProtocolSettings | None = None,
) -> NicConfig:
    ports = tuple(
        PortConfig(p, bytes((2, 0, 0, 0, number, p)), bytes((2, 1, 0, 0, number, p)), nic_usid(p, number), 0, f"eth{p}")
        for p in range(planes)
    )
    evs = tuple(p << 10 | u for p in range(planes) for u in range(uplinks))
    others = tuple(Destination(f"n{i}", address(i), template(i), evs) for i in range(nics) if i != number)
    settings = settings or ProtocolSettings(transport=transport or TransportSettings())
    return NicConfig(f"n{number}", address(number), BLOCK, ports, others, settings=settings)


@dataclass
class Faults:
    """What happens to frames on the way. Probabilities are per frame."""

    seed: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    delay: float = 0.0  # probability of `extra` more ns, which reorders
    extra: int = 0
    mark: float = 0.0  # ECN CE
    trim: float = 0.0
    control_too: bool = True  # loss, duplication and corruption also hit the control class
    dead_paths: set[tuple[int, int]] = field(default_factory=set)  # (plane, uplink), both directions
    dead_from: dict[int, set[tuple[int, int]]] = field(default_factory=dict)  # by NIC, those that lose what it sends
    dead_planes: set[int] = field(default_factory=set)
    plane_delay: dict[int, int] = field(default_factory=dict)  # extra ns on one plane
    path_delay: dict[tuple[int, int], int] = field(default_factory=dict)  # extra ns on (plane, uplink), data only
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)


Tap = Callable[[int, int, int, bytes, int], "bytes | None"]


class World:
    """NICs, wires and a clock."""

    def __init__(
        self,
        nics: int = 2,
        planes: int = 2,
        uplinks: int = 4,
        *,
        delay: int = 10 * US,
        frame_time: int = 1 * US,
        seed: int = 1,
        faults: Faults | None = None,
        transport: TransportSettings | None = None,
    ) -> None:
        self.now = 1_000_000
        self.planes = planes
        self.delay = delay
        self.frame_time = frame_time
        self.faults = faults or Faults()
        self.nics = [Nic(make_config(i, nics, planes, uplinks, transport), seed=seed * 100 + i) for i in range(nics)]
        self.up = [[True] * planes for _ in range(nics)]
        self.sent: list[tuple[int, int, int, bytes]] = []  # time, nic, port, frame when `record` is set
        self.record = False
        self.tap: Tap | None = None  # (nic, port, to, frame, now) -> frame to carry, or None to lose it
        self.arrival: Callable[[int, int, bytes], None] | None = None  # (nic, port, frame) of what a NIC gets
        self.receivers: dict[int, Callable[[int, bytes, int], None]] = {}  # who gets a NIC's frames instead
        self.frames = 0
        self._free = [[0] * planes for _ in range(nics)]
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._number = {address(i): i for i in range(nics)}
        self._heads = {  # the first bytes of a frame, and those of its outer destination, as they reach a NIC's port
            (to, port): (
                bytes((2, 0, 0, 0, to, port)),
                BLOCK.to_bytes(4, "big") + nic_usid(port, to).to_bytes(2, "big") + bytes(10),
            )
            for to in range(nics)
            for port in range(planes)
        }
        self._timers: list[int | None] = [None] * nics

    # ---- clock ----

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Call `action` when the clock shows `when`."""
        self._serial += 1
        heapq.heappush(self._events, (when, self._serial, action))

    def run(self, duration: int | None = None, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass: for `duration` ns, or until the condition holds (False if it never does)."""
        for number in range(len(self.nics)):
            self.pump(number)
        end = None if duration is None else self.now + duration
        while until is None or not until():
            if not self._events or (end is not None and self._events[0][0] > end):
                break
            when, _serial, action = heapq.heappop(self._events)
            self.now = max(self.now, when)
            action()
        else:
            return True
        if end is not None:
            self.now = end
        return until is None or until()

    # ---- devices ----

    def pump(self, number: int) -> None:
        """Ask every idle port for frames and note the next wake-up, as a driver does after each input."""
        nic = self.nics[number]
        while True:
            for port in range(self.planes):
                if self._free[number][port] <= self.now:
                    frame = nic.transmit(port, self.now)
                    if frame is not None:
                        self._leave(number, port, frame)
            due = nic.wakeup()
            if due is None or due > self.now:
                break
            nic.tick(self.now)
        if due is not None and (self._timers[number] is None or due < self._timers[number]):  # type: ignore[operator]
            self._timers[number] = due
            self.at(due, lambda: self._wake(number, due))

    def _wake(self, number: int, due: int) -> None:
        if self._timers[number] == due:
            self._timers[number] = None
            self.nics[number].tick(self.now)
            self.pump(number)

    def _leave(self, number: int, port: int, frame: bytes) -> None:
        self.frames += 1
        if self.record:
            self.sent.append((self.now, number, port, frame))
        self._free[number][port] = self.now + self.frame_time
        self.at(self.now + self.frame_time, lambda: self.pump(number))
        self.carry(number, port, frame)

    def set_port(self, number: int, port: int, up: bool) -> None:
        """Take a NIC's link down or up; the NIC sees it at once."""
        self.up[number][port] = up
        self.nics[number].port_changed(port, up, self.now)
        self.pump(number)

    # ---- wires ----

    def carry(self, number: int, port: int, frame: bytes) -> None:
        """Take a frame from a NIC's port to the other end, as if the NIC had sent it now."""
        faults, rng = self.faults, self.faults.rng
        srv6 = frame[20] == 41
        to = self._number[frame[INNER + 24 : INNER + 40] if srv6 else frame[38:54]]
        if self.tap is not None:
            tapped = self.tap(number, port, to, frame, self.now)
            if tapped is None:
                return
            frame = tapped
        uplink = int.from_bytes(frame[44:46], "big") & 0x3FF if srv6 else 0
        control = (frame[14] << 8 | frame[15]) >> 6 & 63 == 46
        dead = (port, uplink) in faults.dead_paths or (port, uplink) in faults.dead_from.get(number, ())
        if not self.up[number][port] or port in faults.dead_planes or dead:
            return
        exposed = faults.control_too or not control
        if exposed and rng.random() < faults.loss:
            return
        mac, locator = self._heads[to, port]
        frame = b"".join((mac, frame[6:38], locator, frame[54:])) if srv6 else mac + frame[6:]
        if not control and rng.random() < faults.mark:
            frame = frame[:15] + bytes((frame[15] | 0x30,)) + frame[16:]
        if not control and srv6 and len(frame) > 200 and rng.random() < faults.trim:
            frame = self._trim(frame)
        if exposed and rng.random() < faults.corrupt:
            at = rng.randrange(INNER, len(frame))
            frame = frame[:at] + bytes((frame[at] ^ 1 << rng.randrange(8),)) + frame[at + 1 :]
        for _ in range(2 if exposed and rng.random() < faults.duplicate else 1):
            delay = self.delay + faults.plane_delay.get(port, 0)
            if not control:
                delay += faults.path_delay.get((port, uplink), 0)
            if rng.random() < faults.delay:
                delay += rng.randrange(1, faults.extra + 1)
            self._arrive_at(self.now + self.frame_time + delay, to, port, frame)

    def _arrive_at(self, when: int, to: int, port: int, frame: bytes) -> None:
        def arrive() -> None:
            if self.up[to][port]:
                if self.arrival is not None:
                    self.arrival(to, port, frame)
                self.receivers.get(to, self.nics[to].receive)(port, frame, self.now)
                self.pump(to)

        self.at(when, arrive)

    @staticmethod
    def _trim(frame: bytes) -> bytes:
        first = int.from_bytes(frame[14:16], "big") & ~(63 << 6) | 12 << 6
        return frame[:14] + first.to_bytes(2, "big") + frame[16 : 14 + 108]


@dataclass
class End:
    """One side of a connection: a NIC with memory, a queue pair and a completion queue."""

    world: World
    number: int
    qpn: int
    cq: int
    buffer: bytearray
    region: MemoryRegionInfo
    done: list[Completion] = field(default_factory=list)
    next_id: int = 1

    @property
    def nic(self) -> Nic:
        return self.world.nics[self.number]

    @property
    def qp(self) -> Any:
        """What no verb shows."""
        return queue_pair(self.nic, self.qpn)

    def idle(self) -> bool:
        """Whether every write has completed; takes completions."""
        self.poll()
        return len(self.done) == self.next_id - 1

    def poll(self) -> list[Completion]:
        """Take completions; they also collect in ``done``."""
        got = self.nic.poll_cq(self.cq, 1 << 16, self.world.now)
        self.done += got
        return got

    def write(
        self,
        to: End,
        length: int,
        *,
        offset: int = 0,
        to_offset: int | None = None,
        imm: int | None = None,
        rkey: int | None = None,
        remote_address: int | None = None,
        signaled: bool = True,
    ) -> int:
        """Post a write from our buffer to the same place of the other's; returns its wr_id."""
        wr_id = self.next_id
        self.next_id += 1
        far = to.region
        self.nic.post_send(
            self.qpn,
            WorkRequest(
                wr_id,
                WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM,
                self.region.address + offset,
                self.region.lkey,
                length,
                far.address + (offset if to_offset is None else to_offset)
                if remote_address is None
                else remote_address,
                far.rkey if rkey is None else rkey,
                imm,
                signaled,
            ),
            self.world.now,
        )
        return wr_id


def connect(
    world: World,
    a: int = 0,
    b: int = 1,
    *,
    size: int = 1 << 20,
    kind: QpType = QpType.MRC,
    attributes: QpAttributes | None = None,
    far_attributes: QpAttributes | None = None,
    capacity: int = 4096,
    far_capacity: int = 4096,
    rights: Access = ALL_RIGHTS,
) -> tuple[End, End]:
    """A connected pair of queue pairs; the first end's buffer is random, the second's zero.

    `attributes` are of both ends, unless the far one's are given.
    """
    ends = []
    for number, own in ((a, attributes), (b, far_attributes or attributes)):
        nic = world.nics[number]
        buffer = bytearray(random.Random(number).randbytes(size)) if number == a else bytearray(size)
        region = nic.register_memory(0, memoryview(buffer), rights if number == b else ALL_RIGHTS)
        cq = nic.create_cq(capacity if number == a else far_capacity)
        qpn = nic.create_qp(0, kind, cq, cq, own or QpAttributes())
        ends.append(End(world, number, qpn, cq, buffer, region))
    one, two = ends
    one.nic.connect_qp(one.qpn, two.nic.qp_address(two.qpn), world.now)
    two.nic.connect_qp(two.qpn, one.nic.qp_address(one.qpn), world.now)
    return one, two


def queue_pair(nic: Nic, qpn: int) -> Any:
    """A queue pair from inside: for its bounds and its parts, which no counter or verb shows."""
    return nic._qps.get(qpn)


def peers(nic: Nic) -> tuple[Peer, ...]:
    """What a NIC keeps of each other one, from inside."""
    return tuple(nic._peers.made())


def path_events(nic: Nic) -> list[PathEvent]:
    """Path events since the last call."""
    return [e for e in nic.async_events() if isinstance(e, PathEvent)]
