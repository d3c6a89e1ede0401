"""Triggers of a connection matrix: flows that begin because others have ended.

Whether all flows begin does not depend on which of several ends first, since triggers only count. So it is decided
before a run, by letting every flow that has begun end.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping

from mrc_lab.errors import FileError
from mrc_lab.workloads.htsim.connection_matrix import ConnectionMatrix, MatrixTrigger, TriggerKind


class RunningTriggers:
    """What each trigger has still to begin; flows are numbers, in the order of the matrix."""

    def __init__(self, matrix: ConnectionMatrix) -> None:
        self._triggers = {one.id: one for one in matrix.triggers}
        self._left = {one.id: one.count for one in matrix.triggers}
        self._waiting: dict[int, deque[int]] = defaultdict(deque)
        for number, flow in enumerate(matrix.flows):
            if flow.trigger is not None:
                self._waiting[flow.trigger].append(number)

    def activate(self, trigger: int) -> Iterator[int]:
        """A flow has ended that activates `trigger`: the flows that begin now."""
        waiting = self._waiting[trigger]
        kind = self._triggers[trigger].kind
        if kind is TriggerKind.BARRIER:
            self._left[trigger] -= 1
            if self._left[trigger]:
                return
        while waiting:
            yield waiting.popleft()
            if kind is TriggerKind.MULTISHOT:
                return


def check_triggers(matrix: ConnectionMatrix) -> None:
    """FileError with the line of a trigger that htsim would not run, or of a flow that would never begin."""
    targets = Counter(flow.trigger for flow in matrix.flows)
    activations = _activations(matrix, targets)
    for trigger in matrix.triggers:
        _check_count(matrix, trigger, activations[trigger.id], targets[trigger.id])
    never = _never_begun(matrix)
    if never is not None:
        flow = matrix.flows[never]
        raise _error(
            matrix, flow.line, f"this flow never begins: trigger {flow.trigger} waits, in a circle, for its end"
        )


def _activations(matrix: ConnectionMatrix, targets: Mapping[int | None, int]) -> Counter[int]:
    """How many flows activate each trigger; FileError for a trigger that is not there, or begins nothing."""
    known, found = {one.id for one in matrix.triggers}, Counter[int]()
    for flow in matrix.flows:
        for number in (flow.trigger, *flow.activates):
            if number is not None and number not in known:
                raise _error(matrix, flow.line, f"there is no trigger {number}: it needs a line 'trigger id {number}'")
        for number in flow.activates:
            if number not in targets:
                raise _error(matrix, flow.line, f"activates trigger {number}, which begins no flow")
            found[number] += 1
    return found


def _check_count(matrix: ConnectionMatrix, trigger: MatrixTrigger, activations: int, targets: int) -> None:
    """FileError where a trigger of `targets` flows is activated too often or not often enough."""
    needed = targets if trigger.kind is TriggerKind.MULTISHOT else min(1, targets)
    if trigger.kind is TriggerKind.ONESHOT and activations > 1:
        raise _error(matrix, trigger.line, f"oneshot trigger {trigger.id} is activated by {activations} flows")
    if trigger.kind is TriggerKind.BARRIER and activations != trigger.count:
        raise _error(
            matrix, trigger.line, f"barrier {trigger.id} counts to {trigger.count}, but {activations} flows activate it"
        )
    if activations < needed:
        raise _error(
            matrix, trigger.line, f"trigger {trigger.id} is activated {activations} times, so a flow would never begin"
        )


def _never_begun(matrix: ConnectionMatrix) -> int | None:
    """The first flow that would never begin."""
    triggers = RunningTriggers(matrix)
    begun = {number for number, flow in enumerate(matrix.flows) if flow.trigger is None}
    ready = deque(begun)
    while ready:
        for trigger in matrix.flows[ready.popleft()].activates:
            for number in triggers.activate(trigger):
                begun.add(number)
                ready.append(number)
    return next((number for number in range(len(matrix.flows)) if number not in begun), None)


def _error(matrix: ConnectionMatrix, line: int, reason: str) -> FileError:
    return FileError(f"{matrix.source}, line {line}: {reason}")
