"""The receive state of a queue pair in C, against its model and against plain sets."""

import random
from types import ModuleType
from typing import Any

import pytest

from mrc_host.wire import control, headers
from mrc_host.wire.control import SACK_BITS, Sack
from mrc_host.wire.headers import BTH_LENGTH
from mrc_host.wire.psn import MASK
from tests.models.receive_state import ReceiveState
from tests.mrc_host.datapath.module import native
from tests.seeds import SEED

A, RTX = headers.ACK_REQUEST, headers.RTX
READ = (
    "first_psn", "next_psn", "max_psn", "held_up", "arrived", "out_of_order", "units", "pending_bytes",
    "trimmed_request", "unshown",
)  # fmt: skip
WIDEST = 255 * 128 - 1


@pytest.fixture
def module() -> ModuleType:
    return native()


def made(module: ModuleType, first_psn: int = 100, reach: int = 1023, threshold: int = 1 << 20, planes: int = 1) -> Any:
    return module.ReceiveState(module.Receiver(planes, 1), 5, bytes(16), first_psn, 4096, reach, threshold, planes)


def add(state: Any, *psns: int, word: int = 0) -> None:
    for psn in psns:
        state.add(psn, 0, 4096, 17, word, False)


def bitmap_of(state: Any, base: int) -> int:
    """That of a SACK whose bitmap begins at `base`."""
    return control.parse_sack(state.sack(base, 7, 0, -1, 0, 0, 0, 8, False, 0), BTH_LENGTH).bitmap


def bits_of(state: Any) -> set[int]:
    """The PSNs ahead of the expected one that arrived."""
    found = set[int]()
    for base in range(state.next_psn, state.max_psn + 1, SACK_BITS):
        bitmap = bitmap_of(state, base)
        found |= {base + bit for bit in range(SACK_BITS) if bitmap >> bit & 1}
    return found


class Both:
    """The state and its model, to which the same happens."""

    def __init__(self, module: ModuleType, chance: random.Random) -> None:
        self.chance = chance
        self.reach = chance.choice([1, 2, 63, 64, 65, 127, 1023, 4095, WIDEST])
        self.planes = chance.randint(1, 3)
        self.filled = chance.choice([0.01, 0.1, 0.5])  # how soon holes are
        first, threshold = chance.choice([0, 5000, 0xFFFFF0, 0xFFFFFF]), chance.choice([1, 5000, 32768, 1 << 30])
        self.state = made(module, first, self.reach, threshold, self.planes)
        self.model = ReceiveState(first, threshold, self.planes)

    def same(self, call: str, *arguments: Any) -> Any:
        """What both answer to a call."""
        answers = getattr(self.state, call)(*arguments), getattr(self.model, call)(*arguments)
        assert answers[0] == answers[1], f"{call}{arguments}: {answers}"
        return answers[0]

    def arrive(self) -> None:
        """A packet in reach, near the expected one, near the newest, or anywhere."""
        chance, model = self.chance, self.model
        near = model.next_psn if chance.random() < self.filled else model.max_psn
        psn = near + chance.choice([0, 0, 0, 1, 1, 2, chance.randrange(70), chance.randrange(self.reach)])
        if self.same("has", psn):
            with pytest.raises(ValueError, match="arrive"):
                self.state.add(psn, 0, 100, 1, 0, False)
            for each in (self.state, self.model):
                each.units += 7
        elif model.next_psn <= psn < model.next_psn + self.reach:
            word = chance.choice([0, 0, 0, 0, A, RTX, A | RTX]) | psn & 0xFFFFFF
            plane = chance.randrange(-1, self.planes)
            self.same("add", psn, plane, chance.choice([1, 1024, 4096]), 17, word, chance.random() < 0.1)

    def show(self) -> None:
        """A SACK leaves, perhaps for a retransmission or a probe."""
        again = self.chance.choice([-1, -1, self.model.next_psn - 1, self.model.max_psn, self.model.held_up])
        self.sack(self.same("show", min(again, self.model.max_psn), self.chance.random() < 0.2))

    def sack(self, base: int) -> None:
        """Its bytes, with whatever Python gives."""
        chance, model, cack = self.chance, self.model, self.model.next_psn - 1
        qpn, entropy, stamp, mpr = (chance.getrandbits(bits) for bits in (24, 32, 16, 8))
        probe, mark = chance.choice([-1, -1, 0, 0x7FFF]), chance.randrange(3)
        restore, penalty = chance.random() < 0.1, chance.choice([0, 64, 127])
        psn = cack + chance.choice([0, 1, -1, chance.randrange(-40_000, 40_000)])
        offset = probe if probe >= 0 else max(-0x8000, min(0x7FFF, psn - cack))
        expected = Sack(
            mark=mark, probe=probe >= 0, ack_offset=offset, entropy=entropy, source_id=5, destination_id=qpn & 0xFFFF,
            cack_psn=cack & MASK, mpr=mpr, bitmap_offset=base - cack, bitmap=model.bitmap_from(base), timestamp=stamp,
            ooo_count=model.out_of_order, restore_cwnd=restore, cwnd_penalty=penalty, rcvd_units=model.units,
        )  # fmt: skip
        body = self.state.sack(base, qpn, psn, probe, mark, entropy, stamp, mpr, restore, penalty)
        assert body == control.pack_sack(qpn, expected)

    def sweep(self) -> None:
        """All bitmaps of a sweep, from any PSN on."""
        everything = self.chance.random() < 0.5
        base = self.chance.randint(self.model.first_psn, self.model.max_psn + 100)
        while (base := self.same("next_base", base, everything)) >= 0:
            self.sack(base)
            base += SACK_BITS

    def acknowledge(self) -> None:
        """A SACK is queued for another reason."""
        self.state.pending_bytes = self.model.pending_bytes = 0

    def trimmed(self) -> None:
        """A packet with the A bit arrives without its payload."""
        psn = self.model.next_psn + self.chance.randrange(self.reach)
        self.state.trimmed_request = self.model.trimmed_request = max(psn, self.model.trimmed_request)


def test_whatever_happens_it_is_as_the_model_says(module: ModuleType) -> None:
    held_up = wide = 0
    for number in range(150):
        chance = random.Random(f"{SEED}/{number}")
        both = Both(module, chance)
        for _ in range(chance.choice([20, 400])):
            step = chance.choice(
                [both.arrive] * 20 + [both.show, both.show, both.sweep, both.acknowledge, both.trimmed]
            )
            step()
            for name in READ:
                assert getattr(both.state, name) == getattr(both.model, name), f"{name}, seed {SEED}/{number}"
            held_up = max(held_up, both.model.held_up)
            wide += both.model.max_psn - both.model.next_psn >= SACK_BITS
        bits = {both.model.next_psn + at for at in range(both.reach) if both.model.bitmap >> at & 1}
        assert bits_of(both.state) == bits, f"seed {SEED}/{number}"
    assert held_up > SACK_BITS
    assert wide > 1000


def test_any_order_of_arrival_matches_a_set(module: ModuleType) -> None:
    for number in range(20):
        rng = random.Random(number)
        first = rng.randrange(1 << 24)
        state, arrived = made(module, first), set[int]()
        order = [first + n for n in range(rng.randrange(1, 200))]
        rng.shuffle(order)
        ahead = 0
        for psn in order:
            ahead += psn > state.next_psn
            add(state, psn)
            arrived.add(psn)
            expected = next(n for n in range(first, first + 300) if n not in arrived)
            assert state.next_psn == expected, f"seed {number}"
            assert bits_of(state) == {n for n in arrived if n > expected}, f"seed {number}"
            assert state.max_psn == max(arrived)
        assert state.out_of_order == ahead


def test_the_widest_range_is_held_whole(module: ModuleType) -> None:
    """All but the expected packet arrive, many times around the ring; then that one does."""
    state = made(module, 0xFFFFF0, WIDEST)
    for _ in range(5):
        expected = state.next_psn
        add(state, *range(expected + 1, expected + WIDEST))
        assert state.held_up == WIDEST - 1
        assert bits_of(state) == set(range(expected + 1, expected + WIDEST))
        assert bitmap_of(state, state.max_psn) == 1
        assert state.next_base(0, False) == expected
        assert state.next_base(expected + 1, False) == -1
        with pytest.raises(ValueError, match="arrive"):
            add(state, expected + WIDEST)
        add(state, expected)
        assert (state.next_psn, bits_of(state)) == (expected + WIDEST, set())


def test_no_arrival_is_forgotten_before_a_bitmap_has_shown_it(module: ModuleType) -> None:
    """Whichever SACKs leave: for arrivals, retransmissions far ahead of them, or probes."""
    for number in range(40):
        chance = random.Random(f"{SEED}/{number}")
        state, hidden = made(module, planes=3), set[int]()

        def show(again: int, oldest: bool, state: Any = state, hidden: set[int] = hidden) -> None:
            base = state.show(again, oldest)
            hidden.difference_update(range(base, base + SACK_BITS))

        for _ in range(200):
            psn = state.next_psn + chance.choice([0, *[chance.randrange(1, 400) for _ in range(20)]])
            if chance.random() < 0.2:
                show(chance.choice([-1, min(psn, state.max_psn)]), chance.random() < 0.2)
            elif not state.has(psn):
                state.add(psn, chance.randrange(3), 100, 1, psn & MASK, False)
                hidden.add(psn)
            hidden.difference_update(range(state.first_psn, state.next_psn))
            assert state.unshown or not hidden, f"seed {SEED}/{number}"
        for _ in range(20):
            if state.unshown:
                show(-1, False)
        assert not hidden, f"seed {SEED}/{number}"
        assert not state.unshown, f"seed {SEED}/{number}"


def test_holes_are_found_from_any_psn(module: ModuleType) -> None:
    state = made(module)
    add(state, 102, 103, 105)
    assert [state.next_base(psn, False) for psn in range(100, 107)] == [100, 101, 104, 104, 104, -1, -1]
    assert [state.next_base(psn, True) for psn in (0, 103, 105, 106)] == [100, 103, 105, -1]


def test_a_hole_holds_up_what_comes_until_its_packet_does(module: ModuleType) -> None:
    state = made(module)

    def held_up(*psns: int, word: int = 0) -> int:
        add(state, *psns, word=word)
        return int(state.held_up)

    assert held_up(100, 101) == 0
    assert held_up(103, 104, 106) == 3
    assert held_up(102, word=RTX) == 1, "105 has been missing for as long, but holds up 106 alone"
    assert held_up(107) == 2
    assert held_up(105) == 0
    assert held_up(109) == 1


def test_what_cannot_be_is_refused(module: ModuleType) -> None:
    receiver = module.Receiver(1, 1)
    for wrong in (
        {"first_psn": -1}, {"first_psn": 1 << 24}, {"reach": 0}, {"reach": WIDEST + 2}, {"planes": 0}, {"planes": 65},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"No queue pair|ports"):
            made(module, **wrong)
    state = module.ReceiveState(receiver, 5, bytes(4), 100, 4096, 64, 1, 1)
    with pytest.raises(ValueError, match="receives already"):
        module.ReceiveState(receiver, 5, bytes(4), 100, 4096, 64, 1, 1)
    add(state, 101)
    for psn, plane in ((99, 0), (101, 0), (164, 0), (-1, 0), (102, 1), (102, -2), ((1 << 63) - 1, 0)):
        with pytest.raises(ValueError, match="arrive"):
            state.add(psn, plane, 1, 1, 0, False)
    with pytest.raises(ValueError, match="arrived"):
        state.show(102, False)
    with pytest.raises(ValueError, match="expected PSN"):
        bitmap_of(state, 99)
    with pytest.raises(AttributeError):
        state.next_psn = 0
    assert [bitmap_of(state, base) for base in (100, 101, 102, 30_000)] == [2, 1, 0, 0]
    with pytest.raises(OverflowError):
        bitmap_of(state, 1 << 63)
    state.close()
    state.close()
    assert module.ReceiveState(receiver, 5, bytes(4), 7, 4096, 64, 1, 1).next_psn == 7


def test_an_rc_state_follows_what_python_adds(module: ModuleType) -> None:
    receiver, region = module.Receiver(1, 1), module.Region(memoryview(bytearray(100)))
    state = module.RcReceiveState(receiver, 5, bytes(4), 0xFFFFFF, 64)
    assert (state.next_psn, state.at, state.remaining, state.gap, state.carries) == (0xFFFFFF, 0, 0, False, True)
    assert [state.drop_ahead() for _ in range(3)] == [True, False, False], "a gap is reported once"
    state.add(region, 64, 36)
    assert (state.next_psn, state.at, state.remaining, state.gap) == (1 << 24, 64, 36, False)
    assert state.drop_ahead(), "the next gap is another one"
    state.add(None, 100, 0)
    assert (state.next_psn, state.remaining, state.arrived, state.out_of_order) == ((1 << 24) + 1, 0, 2, 4)
    for wrong in ((region, -1, 0), (region, 0, 1 << 64)):
        with pytest.raises(OverflowError):
            state.add(*wrong)
    with pytest.raises(TypeError):
        state.add(memoryview(b""), 0, 0)
    with pytest.raises(ValueError, match="receives already"):
        module.RcReceiveState(receiver, 5, bytes(4), 0, 64)
    for wrong in ((bytes(17), 0, 64), (bytes(4), -1, 64), (bytes(4), 1 << 24, 64), (bytes(4), 0, 0)):
        with pytest.raises(ValueError, match="No queue pair"):
            module.RcReceiveState(receiver, 6, *wrong)
    state.close()
    state.close()
    assert module.RcReceiveState(receiver, 5, bytes(4), 7, 64).next_psn == 7
