"""What a burst of losses asks of both ends, packet by packet: how holes are reported, and what shows a loss.

That a queue pair is soon back at line rate is for `tests/simulation/test_burst_loss.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_host.transport.algorithms import Algorithm
from mrc_host.verbs_types import QpAttributes
from mrc_host.wire import control, headers, opcodes
from tests.mrc_host.nic_world import MS, US
from tests.mrc_host.transport.far_end import FIRST_IN, FIRST_OUT, WIDE, FarEnd, Packet, bits, counters, warm
from tests.mrc_host.transport.parts import Counting
from tests.mrc_host.transport.test_peer import answer, quiet, requests

# ---- what the receiver shows ---------------------------------------------------------------------------------------


def receiver() -> tuple[FarEnd, set[int]]:
    """A NIC that has received for a while, and the reverse paths that it knows: every probe of one was answered."""
    end = FarEnd(planes=2, uplinks=32, attributes=QpAttributes(mpr=255))
    quiet(end)
    used: set[int] = set()
    for psn in range(200):
        end.segment(psn, msn=psn, plane=psn % 2)
        out = end.wait(MS // 2)
        for probe in requests(out, control.OP_EV_PROBE):
            answer(end, probe)
        if psn >= 100:
            used |= {p.ev for p in out if p.opcode == opcodes.SACK}
    assert len(used) < 16, "few of 64 paths are reverse paths"
    return end, used


def test_a_sack_sweep_also_uses_unconfirmed_reverse_paths() -> None:
    """What broke the peer's paths may have broken these too."""
    end, known = receiver()
    for psn in range(201, 800):
        if psn % 4:
            end.segment(psn, msn=psn, plane=psn % 2)
            end.drain()
    end.probe(7)
    swept = [p.ev for p in end.only(opcodes.SACK)][1:]
    assert len(swept) >= 8
    assert len(set(swept) - known) > len(swept) // 2
    assert {ev >> 10 for ev in swept} == {0, 1}


def test_a_persistent_hole_makes_reverse_paths_suspected() -> None:
    """Its sender repeats a packet within a round trip, so its SACKs seem to be lost: look for reverse paths."""
    end, _known = receiver()
    looked: list[int] = []
    for psn in range(201, 320):
        end.segment(psn, msn=psn, plane=psn % 2)
        if requests(end.drain(), control.OP_EV_PROBE):
            looked.append(psn)
    assert looked, "no time has passed, so the hole is what made it look"
    assert min(looked) >= 201 + control.SACK_BITS


def test_a_plane_far_behind_starts_no_sweep() -> None:
    """More packets than one bitmap shows are ahead of a hole, always, but what comes next on that plane fills it."""
    end, _known = receiver()
    reported, newest = set[int](), 1400
    got: list[control.Sack] = []
    for psn in sorted(range(200, newest), key=lambda psn: psn + 150 * (psn % 2)):
        end.segment(psn, msn=psn, plane=psn % 2)
        out = end.drain()
        assert not requests(out, control.OP_EV_PROBE), "its reverse paths are as good as before"
        got += [p.sack for p in out if p.opcode == opcodes.SACK]
    for sack in got:
        cack = sack.cack_psn - FIRST_IN
        base = cack + sack.bitmap_offset
        reported |= set(range(200, cack + 1)) | {base + bit for bit in range(64) if sack.bitmap >> bit & 1}
    due = (newest - 200) // 32  # SACKs, one for 32 packets of a KiB
    assert len(got) <= 2 * due + 2, "each shows what is new on one plane or on both"
    assert len(reported) >= newest - 200 - 32


def test_a_hole_behind_one_that_a_retransmission_fills_is_as_old() -> None:
    end, _known = receiver()
    arrived = [psn for psn in range(200, 420) if psn % 70 != 60]  # 200, 270, 340 and 410 are missing
    for psn in arrived:
        end.segment(psn, msn=psn, plane=psn % 2)
        end.drain()
    end.segment(200, msn=200, flags=headers.RTX)
    shown = [(p.sack.cack_psn - FIRST_IN + p.sack.bitmap_offset) for p in end.only(opcodes.SACK)]
    assert shown[-2:] == [340, 410], "the SACK that answers it shows 270, and a sweep what is behind"


def test_what_a_repaired_hole_held_up_starts_no_sweep_for_the_next_one() -> None:
    end, _known = receiver()
    for psn in [*range(201, 301), 200]:
        end.segment(psn, msn=psn, plane=psn % 2, flags=0 if psn > 200 else headers.RTX)
        end.drain()
    out: list[Packet] = []
    for psn in (381, 383):  # the other plane is behind
        end.segment(psn, msn=psn, plane=0, flags=headers.ACK_REQUEST)
        out += end.drain()
    assert len([p for p in out if p.opcode == opcodes.SACK]) == 2
    assert not requests(out, control.OP_EV_PROBE)


def test_acks_use_every_plane_once_before_repeating() -> None:
    """Drawn at random, several in a row may go to a plane that is dead."""
    end = FarEnd(planes=4, uplinks=4)
    quiet(end)
    ports: list[int] = []
    for psn in range(80):
        end.segment(psn, msn=psn, plane=psn % 4, flags=headers.ACK_REQUEST)
        ports += [p.port for p in end.drain() if p.opcode in (opcodes.SACK, opcodes.TRANSPORT_ACK)]
    assert len(ports) >= 80
    for at in range(len(ports) - 7):
        assert set(ports[at : at + 7]) == {0, 1, 2, 3}, "the end of one turn and the next one whole"
    assert len({tuple(ports[at : at + 4]) for at in range(0, 80, 4)}) > 4, "in another order each time"


# ---- what the sender concludes -------------------------------------------------------------------------------------


def in_turn(end: FarEnd, count: int) -> list[Packet]:
    """So many packets, a microsecond apart."""
    out: list[Packet] = []
    while len(out) < count:
        out += end.data(1)
        end.pass_time(US)
    return out


def test_a_lost_retransmission_is_detected_by_later_first_transmissions_on_its_plane() -> None:
    """None of them overtakes it, since it travels in a higher class; another retransmission may never come."""
    end = FarEnd(planes=1, uplinks=8, attributes=WIDE, size=1 << 20)
    warm(end)
    end.write(200 * 4096)
    sent = in_turn(end, 60)
    lost = sent[0]
    first = lost.psn - FIRST_OUT
    arrived = [p.psn - FIRST_OUT for p in sent[1:]]
    end.sack(first - 1, bits(arrived, first), base=1, of=sent[-1])
    (again,) = [p for p in end.data(1) if p.rtx]
    assert again.psn == lost.psn
    end.pass_time(US)
    later = in_turn(end, 60)
    assert not [p for p in later if p.rtx], "nothing has come since"
    newest = later[-1].psn - FIRST_OUT
    base = newest - control.SACK_BITS + 1
    shown = [n for n in (p.psn - FIRST_OUT for p in later) if n >= base]
    end.sack(first - 1, bits(shown, base), base=base - first + 1, of=later[-1])
    (third,) = [p for p in end.data(1) if p.rtx]
    assert third.psn == lost.psn


@pytest.mark.parametrize("dead", [True, False])
def test_congestion_control_sees_a_path_failure_once_and_each_loss_on_a_live_path(dead: bool) -> None:
    """Nothing queues on a dead link: what else was on its way there says nothing of what the others can carry."""
    cc = Counting()
    attributes = replace(WIDE, congestion_window=None, cc_profile="counting")
    end = FarEnd(
        planes=1, uplinks=8, attributes=attributes, size=1 << 20, congestion={"counting": Algorithm(lambda _line: cc)}
    )
    warm(end)
    end.write(64 * 4096)
    sent = in_turn(end, 60)
    path = sent[0].ev
    on_it = [p for p in sent if p.ev == path]
    assert len(on_it) > 4
    lost = on_it[:-2] if dead else on_it[:-1]  # the dead path's last ones are too young to be judged
    gone = {p.psn for p in (on_it if dead else lost)}
    first = sent[0].psn - FIRST_OUT
    arrived = [p.psn - FIRST_OUT for p in sent if p.psn not in gone]
    end.pass_time(20 * US)
    end.sack(first - 1, bits(arrived, first), base=1, of=sent[-1])
    assert counters(end)[0] >= len(lost)
    assert cc.losses == (1 if dead else len(lost))
