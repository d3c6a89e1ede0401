"""Agreement on who goes on: ranks report to a store that no fault touches, and the first decision there is everybody's.

Every rank whose operation has failed puts a report for the round: whether it is fit to go on, and whom its NIC knows to
be lost. It waits for the reports of all others that nobody calls lost, but no longer than the last call, as torchrun's
rendezvous does. A rank whose wait is over proposes those that have reported, are fit, and reach each other; the store
keeps the first proposal. A rank that comes too late finds itself out.

Who is cut off for a while calls all others lost, just as they call it. So fewer than half of the members, or the half
without the lowest rank, are proposed only after the last call: the others, if they live, propose themselves before.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mrc_common import strict_json

_WAIT_S = 0.005  # between two looks at the store


class Store(Protocol):
    """What is needed of torch.distributed's stores."""

    def set(self, key: str, value: str, /) -> Any:
        """Put a value."""

    def get(self, key: str, /) -> bytes:
        """A value that is there."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all are there."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Put `desired` if nothing is there and `expected` is empty; returns what is there then."""


@dataclass(frozen=True, slots=True)
class LossReport:
    """What a rank knows in a round: those that its NIC calls lost, and whether it can go on itself."""

    rank: int
    lost: frozenset[int] = frozenset()
    fit: bool = True

    def text(self) -> str:
        """For the store."""
        return strict_json.dumps({"rank": self.rank, "lost": sorted(self.lost), "fit": self.fit})

    @staticmethod
    def of(text: bytes) -> LossReport:
        """The report that a text has."""
        plain = strict_json.loads(text)
        return LossReport(plain["rank"], frozenset(plain["lost"]), plain["fit"])


def agree(
    store: Store,
    round_number: int,
    members: Sequence[int],
    own: LossReport,
    last_call_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[int, ...]:
    """The ranks, of `members`, that go on; `own` may not be among them."""
    store.set(_key(round_number, own.rank), own.text())
    decision, until = f"{round_number}/decision", clock() + last_call_s
    reports = {own.rank: own}
    while not store.check([decision]):
        for rank in set(members) - reports.keys():  # also those that are called lost: it may be they who live
            if store.check([_key(round_number, rank)]):
                reports[rank] = LossReport.of(store.get(_key(round_number, rank)))
        if certain(members, reports.values()) or clock() >= until:
            proposal = strict_json.dumps(sorted(able(reports.values())))
            return tuple(strict_json.loads(store.compare_set(decision, "", proposal)))
        sleep(_WAIT_S)
    return tuple(strict_json.loads(store.get(decision)))


def missing(members: Iterable[int], reports: Collection[LossReport]) -> list[int]:
    """Members that have not reported, and that nobody who goes on calls lost."""
    going_on = able(reports)
    known = {report.rank for report in reports} | lost(report for report in reports if report.rank in going_on)
    return [rank for rank in members if rank not in known]


def certain(members: Collection[int], reports: Collection[LossReport]) -> bool:
    """Whether those that are able need wait for nobody.

    All that they do not call lost have reported, and no other group of `members` could be larger than theirs, nor as
    large and have the lowest rank.
    """
    going_on = able(reports)
    half = 2 * len(going_on) == len(members) and min(members) in going_on
    return (2 * len(going_on) > len(members) or half) and not missing(members, reports)


def able(reports: Iterable[LossReport]) -> set[int]:
    """Ranks that have reported, are fit, and do not call one another lost.

    Two may: each of them has a link, but in another plane. So the rank that most others call lost is left out first,
    the higher number of equals, and what it says of others no longer counts.
    """
    left = {report.rank: report for report in reports if report.fit}
    while True:
        calls = Counter(rank for report in left.values() for rank in report.lost if rank in left)
        if not calls:
            return set(left)
        del left[max(calls, key=lambda rank: (calls[rank], rank))]


def lost(reports: Iterable[LossReport]) -> set[int]:
    """Ranks that some report calls lost."""
    return {rank for report in reports for rank in report.lost}


def _key(round_number: int, rank: int) -> str:
    return f"{round_number}/{rank}"
