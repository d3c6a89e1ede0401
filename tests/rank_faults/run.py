"""One run of a scenario: its rounds, after each one more sum of all that live, and at last a group of all that live.

The last group is formed when everything is repaired, unless the store is gone; then the NICs have its queue pairs and
nothing else, and when it is destroyed nothing at all.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.rank_faults import verdict
from tests.rank_faults.fabric import RunFabric
from tests.rank_faults.orders import Fates, RoundUnderWay
from tests.rank_faults.rank import Ending
from tests.rank_faults.scenario import LONG_S, YEAR_S, Round, Scenario
from tests.waiting import until

_PATIENCE_S = 60.0  # of what nothing disturbs
_LOG_END = 2000  # characters of what processes have printed
_PAIRS = 5  # queue pairs to each other rank: one for heartbeats, two each for collectives and messages


class Run:
    """A scenario that is played on processes of its own; `say` gets its rounds in words, `wrong` has what is wrong."""

    def __init__(self, scenario: Scenario, fabric: RunFabric, say: Callable[[str], object]) -> None:
        self._scenario, self._fabric, self._say = scenario, fabric, say
        self._fates = Fates()
        self._uuid = 0
        self.wrong: list[str] = []
        self.longest_s = 0.0

    def play(self) -> None:
        """All of it. AssertionError for what does not come in time."""
        everyone = tuple(range(self._scenario.world))
        for _ in everyone:
            self._fabric.start()
        self._fabric.meet()
        self._undisturbed(everyone, "the first group")
        first = self._scenario.first
        good = self._round(first)
        newcomer = None
        if not self._fates.store_gone:
            self._fabric.store.signal(signal.SIGCONT)
            if self._scenario.returns:
                newcomer = self._fabric.start()
                self._fabric.meet()
            able = self._able(everyone)
            if able or newcomer is not None:
                self._round(self._scenario.second(able, newcomer, watched=good or not first.forms))
        self._last(everyone if newcomer is None else (*everyone, newcomer))

    def _able(self, everyone: Sequence[int]) -> list[int]:
        """The processes that run and have a link; if they do not all reach each other, the network is repaired."""
        broken = self._fates.broken
        able = [number for number in everyone if self._fates.able(number) and verdict.has_link(broken, number)]
        if not verdict.connected(broken, able):
            self._heal()
        return able

    def _last(self, everyone: Sequence[int]) -> None:
        self._heal()
        self._fabric.store.signal(signal.SIGCONT)
        for number in self._fates.stopped:
            self._fabric.ranks[number].signal(signal.SIGCONT)
        for number in self._fates.owing:
            self._fabric.ranks[number].answer(_PATIENCE_S)
        self._fates.stopped.clear()
        alive = tuple(filter(self._fates.able, everyone))
        if not self._fates.store_gone and alive:
            self._undisturbed(alive, "the last group")
            expected = [_PAIRS * (len(alive) - 1) * (number in alive) for number in range(self._scenario.world + 1)]
            until(lambda: [*self._fabric.left().queue_pairs] == expected, f"queue pairs to be {expected}")
        for number in alive:
            self._fabric.ranks[number].orders.send(None)
        for number in alive:
            self._fabric.ranks[number].answer(_PATIENCE_S)
        until(lambda: not self._fabric.left(), "the NICs to be empty")

    def _undisturbed(self, members: tuple[int, ...], what: str) -> None:
        endings = self._orders(Round(True, members, members, _PATIENCE_S, 2, ()), what)
        self.wrong += [
            f"{what}: process {number} fails: {each.words}" for number, each in endings.items() if not each.ok
        ]

    def _round(self, played: Round) -> bool:
        """Play it, and check that all members agree on how it ended; returns whether it ended well."""
        self._say(str(played))
        endings = self._orders(played, "a round")
        self._say(
            "  " + ("; ".join(f"{number}: {each}" for number, each in sorted(endings.items())) or "nobody is left")
        )
        self.wrong += verdict.of_round(played, self._fates.broken, endings)
        self.longest_s = max([self.longest_s, *(ending.longest_s for ending in endings.values())])
        living = tuple(filter(self._fates.able, played.members))
        good = (
            len(living) == len(played.members) == len(endings)
            and all(ending.ok for ending in endings.values())
            and verdict.connected(self._fates.broken, played.members)
        )
        check = Round(False, played.members, living, YEAR_S if played.endless else LONG_S, 1, ())
        self.wrong += verdict.of_check(good, self._orders(check, "one more sum"))
        return good

    def _orders(self, played: Round, what: str) -> dict[int, Ending]:
        self._uuid += 1
        under_way = RoundUnderWay(self._fabric, self._fates, played, self._uuid, what)
        under_way.run()
        self.wrong += under_way.wrong
        return under_way.endings

    def _heal(self) -> None:
        self._fates.broken.clear()
        self._fabric.heal()


def play(scenario: Scenario, say: Callable[[str], object]) -> tuple[list[str], float]:
    """Play a scenario: what is wrong, and the seconds of the longest operation."""
    with (
        tempfile.TemporaryDirectory(prefix="mrc-ranks-") as folder,
        RunFabric(Path(folder), scenario.world, scenario.world + 1, scenario.seed) as fabric,
    ):
        run = Run(scenario, fabric, say)
        try:
            run.play()
        except (AssertionError, EOFError, BrokenPipeError, ConnectionResetError) as error:
            run.wrong.append(f"{type(error).__name__}: {error}")
        if run.wrong:
            say(fabric.log.read_text(errors="replace")[-_LOG_END:])
        return run.wrong, run.longest_s
