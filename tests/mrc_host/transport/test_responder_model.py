"""An MRC responder against its model: packets in any order, repeated, trimmed, far away; probes; a CQ that is full.

Each answer that leaves is compared with what had arrived by then. And whenever SACKs leave, what arrived is in one of
them: in its bitmap, or before its cumulative PSN.
"""

import random
from collections import Counter
from collections.abc import Iterator

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpAttributes
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import SACK_BITS
from mrc_host.wire.psn import HALF, MASK
from tests.models.mrc_responder import Answer, MrcResponder, Segment
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.transport.far_end import FIRST_IN, FarEnd
from tests.seeds import SEED

SIZE = 1 << 15
ROOM = 3
MTU = 256
TRIMMED_AT = 24  # bytes from the BTH on that are left


class Life:
    """A responder and its model, to which the same happens."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        first = chance.choice([0, MASK, MASK - 20, HALF - 5, chance.getrandbits(24)])
        mpr, bitmap_range = chance.choice([1, 8, 255]), chance.choice([1, 2, 255])
        most_open, threshold = chance.choice([2, 8, 1024]), chance.choice([1, 4096, 32768, 1 << 30])
        attributes = QpAttributes(path_mtu=MTU, mpr=mpr, max_wimm=32767, receive_psn=first)
        settings = TransportSettings(
            bitmap_range=bitmap_range, max_inflight_messages=most_open, sack_threshold=threshold
        )
        self.end = FarEnd(attributes=attributes, transport=settings, capacity=ROOM, size=SIZE)
        self.window = 128 * mpr - 1
        self.reach = min(self.window, 128 * bitmap_range)
        self.model = MrcResponder(bytearray(SIZE), first, self.reach, self.window, most_open, threshold, ROOM)
        self.sent = self._messages()
        self.made: list[Segment] = []

    def _messages(self) -> Iterator[Segment]:
        chance, psn, msn, rqmsn = self.chance, self.model.first_psn, 0, 0
        while True:
            length = chance.choice([0, 1, MTU - 1, MTU, MTU + 1, 3 * MTU, 20 * MTU + 3, chance.randrange(SIZE // 2)])
            at, last = chance.randrange(SIZE - length + 1), psn + (-(-length // MTU) or 1) - 1
            imm = chance.getrandbits(32) if chance.random() < 0.4 else None
            for start in range(0, length or 1, MTU):
                kind = opcodes.segment_kind(not start, psn == last, imm is not None)
                size, fill = min(MTU, length - start), chance.randrange(1, 256)
                yield Segment(kind, psn, msn, rqmsn, at + start, size, fill, length, imm, last)
                psn += 1
            msn, rqmsn = msn + 1, rqmsn + (imm is not None)

    def packet(self, psn: int) -> Segment:
        """What the peer sends with this PSN of its life."""
        place = max(0, psn - self.model.first_psn)
        while len(self.made) <= place:
            self.made.append(next(self.sent))
        return self.made[place]

    def step(self) -> None:
        """A packet or a probe arrives, or the application polls."""
        chance, model, expected = self.chance, self.model, self.model.next_psn
        what = chance.randrange(100)
        if what < 35:
            self.arrive(self.packet(expected))
        elif what < 77:
            self.arrive(self.packet(expected + chance.randrange(min(self.reach, chance.choice([8, 100, 400])))))
        elif what < 78:
            for ahead in range(self.reach - 30, self.reach + 2):
                self.arrive(self.packet(expected + ahead))
        elif what < 83:
            self.arrive(self.packet(expected - chance.randrange(1, 20)))
        elif what < 89:
            self.arrive(self.packet(expected + chance.randrange(-3, min(self.reach, 300))), trimmed=True)
        elif what < 93:
            edges = (-1, 0, 1, self.reach - 1, self.reach, self.window - 1, self.window, HALF - 1, HALF, HALF + 1)
            psn = expected + chance.choice([*edges, model.first_psn - 1 - expected, chance.getrandbits(24)])
            self.arrive(self.packet(psn if abs(psn - expected) <= self.window else expected), psn=psn)
        elif what < 97:
            self.end.probe(what)
            model.probed()
            self.drain(None, probe=what)
        else:
            self.check()

    def arrive(self, segment: Segment, psn: int | None = None, trimmed: bool = False) -> None:
        """The packet comes, with its own PSN or another."""
        chance, psn = self.chance, segment.psn if psn is None else psn
        flags = chance.choice([0] * 15 + [headers.ACK_REQUEST, headers.RTX])
        marked, ends = chance.random() < 0.05, segment.kind in (opcodes.LAST_IMM, opcodes.ONLY_IMM)
        imm = segment.imm if ends else None
        carried = 8 + 12 + 4 + 4 + 16 + 4 * ends + segment.size + (-segment.size & 3) + 4
        answer = self.model.arrive(segment, psn & MASK, flags, marked, trimmed, -(-(carried + 40) // 256))
        self.model.finish()
        self.end.now += 1000
        self.end.segment(
            psn - FIRST_IN, segment.kind, msn=segment.msn & 0xFFFF, offset=segment.offset, length=segment.length,
            size=segment.size, imm=imm, rqmsn=segment.rqmsn, flags=flags, fill=segment.fill, stamp=psn & 0xFFFF,
            plane=chance.randrange(2), ecn=3 if marked else 2, **({"dscp": 12, "cut": TRIMMED_AT} if trimmed else {}),
        )  # fmt: skip
        self.drain(answer)

    def drain(self, due: Answer | None, probe: int | None = None) -> None:
        """Everything leaves that the responder wants to send: it is right, and contains what is due."""
        model, answers, sacks, acks = self.model, list[object](), 0, 0
        for packet in self.end.drain():
            if packet.opcode == opcodes.SACK:
                sacks += 1
                self._check(packet.sack)
                if packet.sack.entropy != control.NO_ENTROPY:
                    answers.append(packet.sack.ack_offset if probe is None else ("probe", packet.sack.ack_offset))
            elif packet.opcode == opcodes.NACK:
                answers.append((packet.nack.psn, packet.nack.reason))
            elif packet.opcode == opcodes.TRANSPORT_ACK:
                acks += 1
                assert packet.aeth == (headers.SYNDROME_ACK, model.complete)
                assert packet.psn == (model.next_psn - 1) & MASK
        model.hidden = {psn for psn in model.hidden if psn >= model.next_psn}
        assert not (sacks and model.hidden)
        assert sacks or not model.sack_due
        model.sack_due = False
        if probe is not None:
            assert set(answers) == {("probe", probe)}  # perhaps twice
        elif due is None:
            assert not answers
        else:
            nack = (due.psn & MASK, due.reason)
            assert answers == [nack if due.reason else max(-0x8000, due.psn - model.next_psn + 1)]
        assert bool(acks) == model.ack_due
        model.ack_due = False

    def _check(self, sack: control.Sack) -> None:
        model, base = self.model, self.model.next_psn - 1 + sack.bitmap_offset
        assert sack.cack_psn == (model.next_psn - 1) & MASK
        assert base >= model.next_psn
        shown = {base + bit for bit in range(SACK_BITS) if sack.bitmap >> bit & 1}
        assert shown == model.ahead & set(range(base, base + SACK_BITS))
        assert sack.rcvd_units == model.units & MASK
        assert sack.ooo_count == model.counts["out_of_order_received"] & 0x7FFF
        model.hidden -= shown
        if sack.entropy == control.NO_ENTROPY:
            assert (sack.ack_offset, sack.timestamp) == (0, 0)

    def check(self) -> None:
        """Completions, memory and counters are what the model says; then there is room in the CQ."""
        model, end = self.model, self.end
        assert [(entry.byte_len, entry.imm) for entry in end.poll()] == model.receives
        model.receives.clear()
        model.finish()
        self.drain(None)
        assert end.buffer == model.memory
        end.qp.collect_counts()
        counters = end.nic.nic_counters()
        for name, count in model.counts.items():
            found = counters[name] if name.startswith("drop") else getattr(end.qp.stats, name)
            assert found == count, name
        assert not counters["drop_internal_error"]
        newest = max(model.ahead, default=model.next_psn - 1)
        assert end.qp.psns_received() == newest + 1 - model.first_psn


def test_whatever_arrives_it_is_as_the_model_says() -> None:
    seen = Counter[str]()
    with used(native()):
        for number in range(16):
            seed = f"{SEED}/{number}"
            life = Life(random.Random(seed))
            try:
                for _ in range(life.chance.choice([20, 120, 120])):
                    life.step()
                life.check()
            except BaseException:
                print(f"seed {seed}")
                raise
            seen += life.model.counts
    assert min(seen.values()) > 0, seen
    assert len(seen) == 7, seen
