"""Wires with a switch port before each NIC port: a queue with a rate, ECN marks and trimming.

``CongestedWorld`` is a ``World`` in which data towards a NIC waits in the queue of its plane; control and trimmed
packets do not. Marks come with a probability that rises between two depths, trims (or drops) above a third.
"""

from __future__ import annotations

import random
from dataclasses import replace

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus
from tests.mrc_host.nic_world import End, Faults, World

RATE = 10_000_000_000  # of every port
FRAME = 4096
LINE_NS = FRAME * 8_000_000_000 // RATE
DELAY = 40_000
BASE_RTT = 2 * DELAY + 2 * LINE_NS + LINE_NS
_POLL = 20_000
PLANE_BDP = RATE * BASE_RTT // 8_000_000_000


class CongestedWorld(World):
    """NICs on ports of RATE, each behind a bottleneck. `samples` are (time, nic, plane, bytes waiting)."""

    def __init__(
        self, nics: int, transport: TransportSettings, *, seed: int, planes: int = 2, trimming: bool = True
    ) -> None:
        fitted = replace(transport, assumed_rate=RATE)
        faults = Faults(seed=seed)
        super().__init__(nics, planes, 4, delay=DELAY, frame_time=LINE_NS, seed=seed, faults=faults, transport=fitted)
        self._chance = random.Random(seed)
        self._trimming = trimming
        self._idle_at = {(nic, plane): 0 for nic in range(nics) for plane in range(planes)}
        self.samples: list[tuple[int, int, int, int]] = []
        self.trims = self.drops = self.marks = 0

    def _arrive_at(self, when: int, to: int, port: int, frame: bytes) -> None:
        if len(frame) < 1000:
            super()._arrive_at(when, to, port, frame)
        else:
            self.at(when, lambda: self._enqueue(to, port, frame))

    def _enqueue(self, to: int, port: int, frame: bytes) -> None:
        begin = max(self._idle_at[to, port], self.now)
        waiting = (begin - self.now) * RATE // 8_000_000_000
        self.samples.append((self.now, to, port, waiting))
        if waiting > PLANE_BDP:
            if self._trimming and frame[20] == 41:
                self.trims += 1
                super()._arrive_at(self.now, to, port, self._trim(frame))
            else:
                self.drops += 1
            return
        low, high = PLANE_BDP // 5, PLANE_BDP * 4 // 5
        if self._chance.random() < (waiting - low) / (high - low):
            self.marks += 1
            frame = frame[:15] + bytes((frame[15] | 0x30,)) + frame[16:]
        self._idle_at[to, port] = begin + LINE_NS
        super()._arrive_at(begin + LINE_NS, to, port, frame)


def keep_busy(world: World, pairs: list[tuple[End, End]], size: int, duration: int) -> list[int]:
    """Each first end has four writes of `size` bytes to its second under way; bytes written in `duration`, each."""
    done = [0] * len(pairs)
    end = world.now + duration

    def refill() -> None:
        for number, (near, far) in enumerate(pairs):
            for completion in near.poll():
                assert completion.status is CompletionStatus.SUCCESS, completion.reason
                done[number] += completion.byte_len
                near.write(far, size)
            world.pump(near.number)
        if world.now < end:
            world.at(world.now + _POLL, refill)

    for near, far in pairs:
        for _ in range(0 if near.next_id > 1 else 4):
            near.write(far, size)
    refill()
    world.run(duration)
    return done
