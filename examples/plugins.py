"""A congestion control, a path selection and a workload of your own, for examples/plugins_run.yaml.

docs/extending.md explains each call. Times are in ns, sizes in bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from mrc_host.plugins import congestion_control, path_selection, workload
from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.path_selection import PathSelection
from mrc_lab.workloads.schedules.schedule import Operation, OperationKind


@congestion_control("aimd")
class Aimd(CongestionControl):
    """A packet more each round trip; half the window when a packet was marked or trimmed, once a round trip."""

    def __init__(self, link: LinkParameters) -> None:
        super().__init__(link.window)
        self._mtu, self._round_trip = link.mtu, link.base_rtt
        self._halved = -link.base_rtt

    def on_ack(
        self, acked: int, received: int, rtt: int, marked: bool, now: int, penalty: int = 0, restore: bool = False
    ) -> None:
        if marked:
            self._halve(now)
        else:
            self.cwnd += self._mtu * acked // self.cwnd

    def on_trim(self, size: int, now: int, rtt: int = 0) -> None:
        self._halve(now)

    def _halve(self, now: int) -> None:
        if now - self._halved >= self._round_trip:
            self._halved = now
            self.cwnd = max(self.cwnd // 2, self._mtu)


@path_selection("recycle")
class Recycle(PathSelection):
    """As REPS does: a path whose packet came through without a mark is used again; without one, paths take turns."""

    def __init__(self) -> None:
        self._good: dict[int, deque[int]] = {}  # by plane
        self._plane_of: dict[int, int] = {}

    def choose(self, plane: int, paths: Sequence[int]) -> int:
        for path in paths:
            self._plane_of[path] = plane
        good = self._good.setdefault(plane, deque(maxlen=64))
        return good.popleft() if good else -1

    def on_ack(self, path: int, rtt: int, marked: bool) -> None:
        if not marked and path in self._plane_of:
            self._good[self._plane_of[path]].append(path)

    def on_loss(self, path: int) -> None:
        self.on_unusable(path)

    def on_unusable(self, path: int) -> None:
        good = self._good.get(self._plane_of.get(path, -1), deque())
        while path in good:
            good.remove(path)


@workload("hot_spot")
def hot_spot(ranks: int, size: int, rounds: int) -> Iterator[Operation]:
    """In each round everybody but rank 0 sends to it, and gets as much back."""
    count = 0
    latest: dict[int, int] = {}  # by rank: what the next round waits for
    for tag in range(rounds):
        for rank in range(1, ranks):
            before = [latest[rank]] if rank in latest else []
            yield Operation(rank, OperationKind.SEND, size, peer=0, tag=tag, requires=before)
            yield Operation(rank, OperationKind.RECV, size, peer=0, tag=tag)
            latest[rank] = count + 1
            yield Operation(0, OperationKind.RECV, size, peer=rank, tag=tag)
            yield Operation(0, OperationKind.SEND, size, peer=rank, tag=tag, requires=[count + 2])
            count += 4
