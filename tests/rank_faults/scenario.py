"""Scenarios of rank faults, drawn from a seed: who forms or uses a group, with what timeout, and what fails meanwhile.

A scenario has two rounds. In the first all processes of a group use it or form it anew while something fails; in the
second those that are left, and perhaps a new process, form a group, perhaps while something else fails. A timeout of
None is torch's own way to say none, which makes the group's timeout of years apply.

With such timeouts only what ends by itself may happen: a process that is stopped for good, a member that never calls
and a newcomer that is lost before it has called end by the timeout alone (docs/training-faults.md).
"""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mrc_lab.torch.stages import Stage

YEAR_S: Final = 31_536_000.0
SHORT_S: Final = 0.3
LONG_S: Final = 4.0  # longer than a pause
PLANES: Final = 2
_PAUSE_S = (0.1, 2.0)
_SOON_S, _LATEST_S = 0.1, 0.6  # a fault that does not wait for a stage comes at once, while things happen, or later


class Fault(enum.Enum):
    """What fails; the value is for people."""

    KILL = "is killed"
    STOP = "is stopped"
    PAUSE = "is stopped for a while"
    OFF = "loses its links on all planes"
    SILENT = "is silent on all planes, with links that look up"
    CUT = "loses its link on a plane"
    DARK = "a plane forwards nothing"
    LOSS = "packets are lost"
    STORE = "the store is killed"
    STORE_STOPPED = "the store is stopped"


OF_PROCESSES: Final = (Fault.KILL, Fault.STOP, Fault.PAUSE)
ENDLESS: Final = (Fault.STOP, Fault.STORE_STOPPED)  # only a timeout ends what they do
HARMLESS: Final = (Fault.LOSS, Fault.CUT, Fault.DARK, Fault.PAUSE)  # each alone costs nobody the group


@dataclass(frozen=True)
class Blow:
    """A fault: of process `victim` if it has one, at a `stage` of it, or `after` seconds.

    `amount` is a plane (cut, dark), a share (loss) or seconds (pause).
    """

    fault: Fault
    victim: int | None = None
    stage: Stage | None = None
    after: float = 0.0
    amount: float = 0.0

    def __str__(self) -> str:
        who = "" if self.victim is None else f"process {self.victim} "
        when = f"at {self.stage.value}" if self.stage is not None else f"after {self.after:.2f} s"
        return f"{who}{self.fault.value} ({self.amount:.2f}) {when}"


@dataclass(frozen=True)
class Round:
    """`members` form a group in this order if `forms`, else use the one they have; of them `callers` call.

    Then they add `sums` times. `timeout_s` is that of every operation.
    """

    forms: bool
    members: tuple[int, ...]
    callers: tuple[int, ...]
    timeout_s: float | None
    sums: int
    blows: tuple[Blow, ...]

    @property
    def endless(self) -> bool:
        """Whether only a loss ends an operation."""
        return self.timeout_s is None or self.timeout_s >= YEAR_S

    def __str__(self) -> str:
        what = "form" if self.forms else "use"
        called = "" if self.members == self.callers else f", called by {list(self.callers)}"
        blows = "; ".join(map(str, self.blows)) or "nothing fails"
        return f"{list(self.members)} {what} a group{called}, timeout {self.timeout_s}, {self.sums} sums: {blows}"


@dataclass(frozen=True)
class Scenario:
    """What happens, up to the second round, whose members are known when the first is over: `second` draws them."""

    seed: int
    world: int
    first: Round

    def second(self, able: Sequence[int], newcomer: int | None, *, watched: bool) -> Round:
        """The second round: `able` processes are alive and reach each other, `newcomer` has just started.

        They watch each other if `watched`.
        """
        draw = random.Random(f"{self.seed} second")
        members = [*able, *([] if newcomer is None else [newcomer])]
        members = draw.sample(members, len(members))
        timeout = _timeout(draw)
        blows = ()
        if len(members) > 1 and draw.random() < 0.5:
            unwatched = (newcomer,) if watched else tuple(members)
            blows = (_blow(draw, members, timeout, forms=True, unwatched=unwatched),)
        return Round(True, tuple(members), _callers(draw, members, timeout, blows), timeout, draw.randrange(3), blows)

    @property
    def returns(self) -> bool:
        """Whether a new process comes for the second round."""
        return random.Random(f"{self.seed} returns").random() < 0.5

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.first}"


def draw_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    draw = random.Random(seed)
    world = draw.randrange(2, 6)
    members = draw.sample(range(world), world)
    timeout = _timeout(draw)
    forms = draw.random() < 0.6
    blows = [_blow(draw, members, timeout, forms=forms) for _ in range(draw.choice((1, 1, 1, 2, 2, 0)))]
    if len({blow.victim for blow in blows if blow.fault in OF_PROCESSES}) < sum(
        blow.fault in OF_PROCESSES for blow in blows
    ):
        del blows[1:]  # a process gets one signal
    callers = _callers(draw, members, timeout, blows) if forms else tuple(members)
    return Scenario(seed, world, Round(forms, tuple(members), callers, timeout, draw.randrange(1, 5), tuple(blows)))


def _timeout(draw: random.Random) -> float | None:
    return draw.choice((0.0, SHORT_S, LONG_S, LONG_S, LONG_S, None, YEAR_S, YEAR_S))


def _callers(
    draw: random.Random, members: Sequence[int], timeout: float | None, blows: Sequence[Blow]
) -> tuple[int, ...]:
    """Most often all, in any order; some only if a timeout ends it, and those whose stages count."""
    count = len(members)
    if timeout is not None and timeout < YEAR_S and draw.random() < 0.15:
        count = draw.randrange(1, count + 1)
    chosen = draw.sample(list(members), count)
    return tuple(chosen + [blow.victim for blow in blows if blow.victim in set(members) - set(chosen)])  # type: ignore[misc]


def _blow(
    draw: random.Random,
    members: Sequence[int],
    timeout: float | None,
    *,
    forms: bool,
    unwatched: Sequence[int | None] = (),
) -> Blow:
    endless = timeout is None or timeout >= YEAR_S
    kinds = [fault for fault in Fault if not (endless and fault in ENDLESS)]
    fault = draw.choice([*kinds, Fault.KILL, Fault.KILL])
    after = draw.uniform(0, draw.choice((0.0, _SOON_S, _SOON_S, _LATEST_S)))
    if fault in OF_PROCESSES:
        victim = draw.choice(list(members))
        stages = [stage for stage in Stage if forms or stage is Stage.COLLECTIVE]
        if endless and victim in unwatched:
            stages = [stage for stage in stages if stage not in (Stage.RETIRE, Stage.ROLL_CALL)]
        at = draw.choice(stages) if draw.random() < 0.7 or victim in unwatched else None
        return Blow(fault, victim, at, after, draw.uniform(*_PAUSE_S))
    if fault in (Fault.OFF, Fault.SILENT, Fault.CUT):
        return Blow(fault, draw.choice(list(members)), None, after, draw.randrange(PLANES))
    amount = draw.uniform(0.005, 0.05) if fault is Fault.LOSS else draw.randrange(PLANES)
    return Blow(fault, None, None, after, amount)
