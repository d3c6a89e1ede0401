"""What an RC queue pair receives, life after life, against a model: packets in any order, repeated, wrong, in pieces.

Most packets are what a peer would send next, so that long messages get under way, which the datapath in C places.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mrc_host.nic import Nic
from mrc_host.verbs_types import QpAddress, QpState, QpType
from mrc_host.wire import headers, opcodes
from mrc_host.wire.psn import HALF, MASK
from tests.models import frames
from tests.models.rc_responder import (
    BEGIN,
    FIRST,
    LAST,
    LAST_IMM,
    MIDDLE,
    ONLY,
    ONLY_IMM,
    WITH_IMM,
    Packet,
    RcResponder,
)
from tests.mrc_host.datapath.arriving import delivered
from tests.mrc_host.datapath.hostile import RC_BTH, Give, in_pieces
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.nic_world import ALL_RIGHTS, MS, World, address, connect
from tests.seeds import SEED

SIZE = 8192  # bytes of the region
ROOM = 5  # entries of the receive CQ
_OUT_OF_PLACE = {FIRST: [MIDDLE], MIDDLE: [FIRST, LAST, LAST_IMM], LAST: [MIDDLE], LAST_IMM: [MIDDLE]}


class Lives:
    """A queue pair and its model, to which the same happens."""

    def __init__(self, chance: random.Random, receive: Give) -> None:
        self.chance = chance
        self.receive = receive
        self.world = World(planes=1)
        _far, self.end = connect(self.world, size=SIZE, kind=QpType.RC, far_capacity=ROOM)
        self.nic = self.end.nic
        self.configs = [nic.config for nic in self.world.nics]
        self.counts = Counter[str]()
        self.drops = Counter[str]()
        self.beside = bytearray(3 * SIZE)  # the region is in the middle
        self.region = self.nic.register_memory(0, memoryview(self.beside)[SIZE : 2 * SIZE], ALL_RIGHTS)
        self.model = RcResponder(bytearray(SIZE), 0, 256, self.counts)

    def begin(self) -> None:
        """RESET, and a connection to another queue pair with other attributes."""
        chance, nic, qpn = self.chance, self.nic, self.end.qpn
        self.check()
        nic.modify_qp(qpn, QpState.RESET, self.world.now)
        self.world.now += 2000 * MS  # a packet lifetime and more: any first PSN will do
        if not self.model.registered:
            self.region = nic.register_memory(0, memoryview(self.beside)[SIZE : 2 * SIZE], ALL_RIGHTS)
        self.mtu = chance.choice([256, 512])
        first = chance.choice([0, 1, MASK, MASK - 3, HALF - 2, HALF, chance.getrandbits(24)])
        nic.modify_qp(qpn, QpState.INIT, self.world.now)
        remote = QpAddress(address(0), chance.getrandbits(20), first)
        nic.modify_qp(qpn, QpState.RTR, self.world.now, {"path_mtu": self.mtu}, remote=remote)
        if chance.random() < 0.8:
            nic.modify_qp(qpn, QpState.RTS, self.world.now)
        received, self.model = self.model.receives, RcResponder(bytearray(self.here()), first, self.mtu, self.counts)
        self.model.receives = received
        self.sent = self._messages()
        self.latest = [next(self.sent)]  # the packets that were made, from the life's first on

    def here(self) -> bytes:
        return bytes(self.beside[SIZE : 2 * SIZE])

    def _messages(self) -> Iterator[Packet]:
        """Packets as a peer sends them, for ever."""
        chance, mtu, number = self.chance, self.mtu, 0
        while True:
            length = chance.choice(
                [0, 1, mtu - 3, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5, 12 * mtu, chance.randrange(SIZE // 2)]
            )
            count, at, imm = -(-length // mtu) or 1, chance.randrange(SIZE - length + 1), chance.random() < 0.3
            for n in range(count):
                kind = opcodes.segment_kind(n == 0, n == count - 1, imm)
                begins = kind in BEGIN
                yield Packet(
                    kind, (self.model.first_psn + number) & MASK, chance.randbytes(min(mtu, length - n * mtu)),
                    at if begins else 0, length if begins else 0, True,
                    chance.getrandbits(32) if kind in WITH_IMM else 0, chance.random() < 0.3,
                )  # fmt: skip
                number += 1

    def made(self, position: int) -> Packet:
        """The packet at this place of the life."""
        while len(self.latest) <= position:
            self.latest.append(next(self.sent))
        return self.latest[position]

    def step(self) -> None:
        """A packet arrives, mostly the one expected, or something else happens."""
        chance, model = self.chance, self.model
        expected = model.next_psn - model.first_psn
        what = chance.randrange(1000)
        if what < 700:
            packet = self.made(expected)
        elif what < 800:
            packet = self.made(expected + chance.randrange(8))
        elif what < 860:
            packet = self.made(max(0, expected - chance.randrange(1, 8)))
        elif what < 940:
            packet = self._anything()
        elif what < 960:
            packet = self._wrong(self.made(expected))
        elif what < 970:
            self._happens()
            return
        else:
            self.poll()
            return
        self._arrive(packet._replace(marked=chance.random() < 0.1))

    def _anything(self) -> Packet:
        """A packet of any kind and size that is not the expected one."""
        chance, model = self.chance, self.model
        away = chance.choice([-40_000, -1, 1, 2, 40_000, HALF - 1, HALF, HALF + 1, chance.randrange(1, 1 << 24)])
        kind, size = chance.randrange(6), chance.choice([0, 1, 4, self.mtu, self.mtu + 4])
        length = chance.choice([0, size, 3 * self.mtu]) if kind in BEGIN else 0
        return Packet(kind, (model.next_psn + away) & MASK, bytes(size), 0, length, asks=chance.random() < 0.5)

    def _wrong(self, packet: Packet) -> Packet:
        """The expected packet with one thing wrong, if it has such a thing."""
        chance, mtu, size = self.chance, self.mtu, len(packet.payload)
        what = chance.randrange(6)
        if what == 0 and packet.length:
            return packet._replace(right_key=False)
        if what == 1 and packet.length:
            return packet._replace(at=chance.choice([-1, SIZE - packet.length + 1, -SIZE, SIZE]))
        if what == 2 and size > 1:
            return packet._replace(payload=chance.choice([packet.payload[:-1], packet.payload + b"\1"]))
        if what < 5 and packet.kind in _OUT_OF_PLACE and size == mtu:
            return packet._replace(kind=chance.choice(_OUT_OF_PLACE[packet.kind]))
        longer = bytes(2 * mtu)  # than a packet may be
        return packet._replace(kind=chance.choice([ONLY, ONLY_IMM]), payload=longer, at=0, length=2 * mtu)

    def _happens(self) -> None:
        chance, nic, model = self.chance, self.nic, self.model
        what = chance.randrange(12)
        if what == 0 and model.registered:
            nic.deregister_memory(self.region.lkey)
            model.registered = False
        elif what == 1 and nic.qp_state(self.end.qpn) is QpState.RTS:
            model.takes_writes = not model.takes_writes
            nic.modify_qp(self.end.qpn, QpState.RTS, self.world.now, {"remote_write": model.takes_writes})
        elif what < 4:
            nic.set_trace(chance.choice([None, lambda _event: None]))  # then Python takes every packet
        else:
            self.check()

    def _arrive(self, packet: Packet) -> None:
        if drop := self.model.arrive(packet, len(self.model.receives) < ROOM):
            self.drops[drop] += 1
        self.receive(self.nic, 0, self._frame(packet), self.world.now)
        if self.chance.random() < 0.7:
            assert self._answer() == self.model.answer()

    def _frame(self, packet: Packet) -> bytes:
        body = struct.pack(
            "!BBHIB", opcodes.RC_WRITE_FIRST + packet.kind, (-len(packet.payload) & 3) << 4, headers.PKEY,
            self.end.qpn, packet.asks << 7,
        ) + packet.psn.to_bytes(3, "big")  # fmt: skip
        if packet.kind in BEGIN:
            rkey = self.region.rkey ^ (not packet.right_key)
            body += struct.pack("!QII", self.region.address + packet.at, rkey, packet.length)
        if packet.kind in WITH_IMM:
            body += packet.imm.to_bytes(4, "big")
        body += packet.payload + bytes(-len(packet.payload) & 3)
        near, far = self.configs
        frame = frames.assemble(near, 0, b"", None, far.address, 0, 0xC000, 0, 3 if packet.marked else 2, body)
        return delivered(frame, far, 0, False)

    def _answer(self) -> tuple[int, int, int] | None:
        """The acknowledgement that leaves now."""
        found = None
        while (frame := self.nic.transmit(0, self.world.now)) is not None:
            if frame[frames.KIND_BYTE] != frames.IPV6 and frame[RC_BTH] == opcodes.RC_ACK:
                assert found is None
                *_, word, last = headers.aeth.unpack_from(frame, RC_BTH)
                found = last >> 24, word & MASK, last & 0xFFFFFF
        return found

    def poll(self) -> None:
        """The receive CQ is emptied: it holds what the model says."""
        found = [(entry.byte_len, entry.imm) for entry in self.end.poll()]
        assert found == self.model.receives
        self.model.receives.clear()

    def check(self) -> None:
        """Memory, counters and state are what the model says."""
        model, nic = self.model, self.nic
        assert self.here() == model.memory
        assert not any(self.beside[:SIZE])
        assert not any(self.beside[2 * SIZE :])
        qp: Any = self.end.qp
        qp.collect_counts()
        assert {name: getattr(qp.stats, name) for name in self.counts} == self.counts
        counters = nic.nic_counters()
        assert {name: counters[f"drop_{name}"] for name in self.drops} == self.drops
        assert not counters["drop_internal_error"]
        state = nic.qp_state(self.end.qpn)
        assert (state is QpState.ERROR) == model.dead
        assert qp.psns_received() == model.next_psn - model.first_psn


def test_whatever_arrives_it_is_as_the_model_says() -> None:
    seen = Counter[str]()
    with used(native()):
        for number in range(30):
            seed = f"{SEED}/{number}"
            chance = random.Random(seed)
            lives = Lives(chance, chance.choice([Nic.receive, in_pieces(chance)]))
            try:
                for _ in range(8):
                    lives.begin()
                    for _ in range(chance.choice([10, 60, 60])):
                        lives.step()
                        if lives.model.dead and chance.random() < 0.3:
                            break
                lives.check()
                lives.poll()
            except BaseException:
                print(f"seed {seed}")
                raise
            seen += lives.counts + lives.drops
    assert min(seen.values()) > 0, seen
    assert len(seen) == 10, seen
