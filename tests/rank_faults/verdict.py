"""What a round may come to: success, or one error of every rank within the bound, and never a hang."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from mrc_lab.torch.reconfiguration import RETURN_S
from mrc_lab.workloads.liveness import CONNECT_S, LivenessSettings
from tests.rank_faults.rank import Ending
from tests.rank_faults.scenario import PLANES, YEAR_S, Blow, Fault, Round
from tests.time_limit_keeper import share

DETECTION_S = LivenessSettings().timeout / 1e9 + CONNECT_S + RETURN_S
"""Within which a loss ends what has no timeout; the longest case is a silent member that never calls."""
_STORE_S = 2.0  # in which a rank that fails asks the store who is missing, and leaves word
_BUSY_S = 5.0  # what a machine with other work may add
_MARGIN_S = 1.5  # between pauses and a timeout that they do not reach


def bound_s(timeout_s: float | None, pauses_s: float = 0) -> float:
    """Within which an operation ends."""
    endless = timeout_s is None or timeout_s >= YEAR_S
    return (DETECTION_S if endless else timeout_s or 0.0) + pauses_s + _STORE_S + _BUSY_S / share()


def connected(broken: Iterable[Blow], processes: Iterable[int]) -> bool:
    """Whether each two of the processes have a plane in common that works."""
    planes = [_planes(broken, process) for process in processes]
    return all(one & other for one, other in combinations(planes, 2))


def has_link(broken: Iterable[Blow], process: int) -> bool:
    """Whether a process has a plane that works."""
    return bool(_planes(broken, process))


def _planes(broken: Iterable[Blow], process: int) -> set[int]:
    planes = set(range(PLANES))
    for blow in broken:
        if blow.fault in (Fault.OFF, Fault.SILENT) and process == blow.victim:
            planes.clear()
        elif blow.fault is Fault.DARK or (blow.fault is Fault.CUT and process == blow.victim):
            planes.discard(int(blow.amount))
    return planes


def pauses_s(blows: Iterable[Blow]) -> float:
    """How long processes are stopped in all."""
    return sum(blow.amount for blow in blows if blow.fault is Fault.PAUSE)


def may_fail(played: Round, broken: Iterable[Blow]) -> bool:
    """Whether something in a round is a reason to fail; `broken` is what the network has, the round's blows too."""
    if set(played.callers) != set(played.members) or not connected(broken, played.members):
        return True
    if not played.endless and (played.timeout_s or 0.0) < pauses_s(played.blows) + _MARGIN_S:
        return True
    fatal = {Fault.KILL, Fault.STOP} | ({Fault.STORE, Fault.STORE_STOPPED} if played.forms else set())
    return any(blow.fault in fatal for blow in played.blows)


def of_round(played: Round, broken: Iterable[Blow], endings: Mapping[int, Ending]) -> Iterator[str]:
    """What is wrong with how the callers of a round ended; those that were killed or stopped have no ending."""
    limit = bound_s(played.timeout_s, pauses_s(played.blows))
    fails = may_fail(played, broken)
    for number, ending in endings.items():
        if ending.wrong:
            yield f"process {number}: {ending.words}"
        elif not ending.ok and not fails:
            yield f"process {number} failed without a reason: {ending.words}"
        if ending.longest_s > limit:
            yield f"process {number} took {ending.longest_s:.1f} s, more than {limit:.1f}: {ending.words or 'success'}"


def of_check(good: bool, endings: Mapping[int, Ending]) -> Iterator[str]:
    """What is wrong with one more sum of the living members, which is to end well if all went `good` before."""
    for number, ending in endings.items():
        if ending.wrong:
            yield f"process {number}: {ending.words}"
        elif ending.ok is not good:
            word = "ends well in a group that has failed" if ending.ok else f"fails in a good group: {ending.words}"
            yield f"one more sum of process {number} {word}"
