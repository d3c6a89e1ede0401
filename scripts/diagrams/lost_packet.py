"""The life of a lost packet, from the event traces of two simulated NICs between which one path loses everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.diagrams.svg import LOSS, QUIET, TEXT, arrow, panel, svg, text
from simulation.world import SimulatedWorld
from topologies.addressing import entropy_value
from topologies.clos import multi_plane_clos
from topologies.faults.path_loss import PathLoss

_EV = entropy_value(1, 2)
_SIZE = 1 << 20
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 940, 360, 610, 40, 60
_Event = Mapping[str, Any]


def lost_packet() -> str:
    """Both NICs as vertical lines; what crosses between them, and what the sender concludes, in order of time."""
    sender, receiver = _traces()
    lost = next(event for event in sender if event["event"] == "lost")
    psn, when = lost["psn"], lost["t"]
    sent = [event for event in sender if event["event"] == "send" and event.get("psn") == psn and "msn" in event]
    again = next(event for event in receiver if event["event"] == "receive" and event.get("psn") == psn)
    shown = next(event for event in reversed(sender) if event["event"] == "receive" and event["t"] <= when)
    bad = next(event for event in sender if event["event"] == "path" and event["new"] == "assumed_bad")
    answer = next(event for event in sender if event["event"] == "receive" and event["t"] > again["t"])
    (done,) = [event for event in sender if event["event"] == "completion"]
    steps = [
        _Step(sent[0]["t"], f"sends it on path {sent[0]['ev']:#x}, plane 1", crossing="lost"),
        _Step(shown["t"], "SACK: later packets of plane 1 arrived, it did not", crossing="left"),
        _Step(when, "declares it lost"),
        _Step(sent[1]["t"], f"retransmits it on path {sent[1]['ev']:#x}", crossing="right"),
        _Step(bad["t"], f"loses more on {bad['ev']:#x}: assumed bad, probed"),
        _Step(again["t"], "it arrives, and is placed in memory at its address", at_receiver=True),
        _Step(answer["t"], "SACK: acknowledged", crossing="left"),
        _Step(done["t"], "the whole message is acknowledged: completion"),
    ]
    steps.sort(key=lambda step: step.at)
    height = _TOP + len(steps) * _ROW + 10
    parts = [panel(_WIDTH, height)]
    for x, name in ((_LEFT, "h1"), (_RIGHT, "h3")):
        parts.append(f'<line x1="{x}" y1="36" x2="{x}" y2="{height - 12}" stroke="{QUIET}"/>')
        parts.append(text(x, 26, name, TEXT, 16, font_weight="bold"))
    for number, step in enumerate(steps):
        parts += step.drawn(_TOP + number * _ROW)
    return svg(_WIDTH, height, parts)


class _Step:
    """One row: its time in ns, what happens, and what crosses the network."""

    def __init__(self, at: int, words: str, crossing: str = "", at_receiver: bool = False) -> None:
        self.at = at
        self._words = words
        self._crossing = crossing
        self._at_receiver = at_receiver

    def drawn(self, y: float) -> list[str]:
        """The row's elements, at this height."""
        parts = [text(12, y + 5, f"{self.at / 1000:.1f} us", QUIET, 12, anchor="start")]
        if self._at_receiver:
            return [*parts, text(_RIGHT + 12, y + 5, self._words, TEXT, 12, anchor="start")]
        words = self._words
        if self._crossing == "left":
            parts += arrow(_RIGHT, y, _LEFT, y)
            return [*parts, text(_RIGHT + 12, y + 5, words, TEXT, 12, anchor="start")]
        if self._crossing == "lost":
            middle = (_LEFT + _RIGHT) / 2
            parts += [*arrow(_LEFT, y, middle, y, LOSS), text(middle + 12, y + 6, "✕", LOSS, 18)]
        elif self._crossing:
            parts += arrow(_LEFT, y, _RIGHT, y)
        return [*parts, text(_LEFT - 12, y + 5, words, TEXT, 12, anchor="end")]


def _traces() -> tuple[list[_Event], list[_Event]]:
    """What h1 and h3 log while h1 writes one message to h3."""
    sender: list[_Event] = []
    receiver: list[_Event] = []
    with SimulatedWorld(multi_plane_clos(), seed=1, rate=100_000_000_000) as world:
        world.faults.add(PathLoss(ev=_EV, source="h1", destination="h3"), at=0)
        world.nic("h1").set_trace(sender.append)
        world.nic("h3").set_trace(receiver.append)
        world.run(_write(world))
    return sender, receiver


async def _write(world: SimulatedWorld) -> None:
    with world.open("h1") as near, world.open("h3") as far:
        pd, far_pd = near.alloc_pd(), far.alloc_pd()
        region, far_region = pd.alloc_mr(_SIZE), far_pd.alloc_mr(_SIZE)
        cq, far_cq = near.create_cq(), far.create_cq()
        qp = pd.create_qp(cq, attributes=world.attributes())
        far_qp = far_pd.create_qp(far_cq, attributes=world.attributes())
        qp.connect(far_qp.address)
        far_qp.connect(qp.address)
        qp.write(region, far_region.remote)
        await cq.next()
