"""Verbs of a simulated host whose NIC is some way off: completions take time until the application sees them.

A message takes time on its way to the NIC (doorbell, reading the work request and its first bytes over PCIe) and on its
way back (writing the completion, polling it). An application cannot tell the two apart: it knows when it posted and
when that completed, and so does its peer. Both together are applied here, at completion, so that work requests reach
the device at once and it refuses what it has to refuse while the application waits, as a library does.

A completion has its place in the device's queue from when the NIC made it; this provider shows it when its time has
come, and only then notifies of it.
"""

from __future__ import annotations

from collections.abc import Callable

from mrc_host.nic import Nic
from mrc_host.notify import Notification
from mrc_host.verbs.local import Advance, LocalProvider
from mrc_host.verbs_types import Completion
from simulation.core.native import Clock
from simulation.hardware_timing import HardwareTiming


class _Queue:
    """One completion queue: how many of its entries can be seen, how many are on their way, and who waits for what."""

    __slots__ = ("coming", "notification", "visible")

    def __init__(self) -> None:
        self.visible = 0
        self.coming = 0
        self.notification = Notification()


class DelayedCompletions(LocalProvider):
    """A provider whose completions are seen `timing.host` ns later, and at most one each `timing.message` ns.

    `announce` is called when one can be seen that somebody waits for; its owner then calls `dispatch`, as after driving
    the device.
    """

    def __init__(
        self,
        nic: Nic,
        clock: Clock,
        timing: HardwareTiming,
        *,
        poke: Callable[[], None],
        advance: Advance,
        announce: Callable[[], None],
    ) -> None:
        super().__init__(nic, lambda: clock.now, poke=poke, advance=advance)
        self._events = clock
        self._timing = timing
        self._announce = announce
        self._queues: dict[int, _Queue] = {}
        self._free = 0  # when the NIC is done with the last message
        self._new = False  # something could be seen since `dispatch` was last called
        self._waited_for = False

    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """Create a completion queue."""
        cq = super().create_cq(capacity, on_ready, on_notify)
        self._queues[cq] = _Queue()
        return cq

    def destroy_cq(self, cq: int) -> None:
        """Destroy a completion queue; nobody sees what was on its way."""
        super().destroy_cq(cq)
        del self._queues[cq]

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue for what can be seen from now on."""
        super().req_notify_cq(cq, solicited_only)
        self._queues[cq].notification.arm(solicited_only)

    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take completions that can be seen."""
        queue = self._queues.get(cq)
        if queue is None:
            return super().poll_cq(cq, max_entries)
        if not queue.visible:
            return []
        taken = super().poll_cq(cq, min(max_entries, queue.visible))
        queue.visible -= len(taken)
        return taken

    def wait(self, deadline: int | None) -> None:
        """Let the world run until something can be seen or `deadline` has passed in its own time."""
        self._new, self._waited_for = False, True
        try:
            super().wait(deadline)
        finally:
            self._waited_for = False

    def dispatch(self) -> bool:
        """Send new completions on their way, and announce events; True if there is something new to see."""
        new, self._new = self._new, False
        if not self._nic.has_news():
            return new
        self._nic.cq_notified()  # ours come later
        for cq in sorted(self._nic.cq_ready()):
            self._send_on(cq)
        return self._dispatch_events() or new

    def _send_on(self, cq: int) -> None:
        queue = self._queues.get(cq)
        if queue is None:
            return
        clock, timing = self._events, self._timing
        for entry in self._nic.peek_cq(cq, queue.visible + queue.coming):
            self._free = max(clock.now, self._free) + timing.message
            queue.coming += 1
            clock.at(self._free + timing.host, self._show, cq, entry)

    def _show(self, cq: int, entry: Completion) -> None:
        """A completion can be seen from now on; event handler."""
        queue = self._queues.get(cq)
        if queue is None:
            return
        queue.coming -= 1
        queue.visible += 1
        self._new = True
        self._call_back(self._on_ready, cq)
        if queue.notification.due(entry):
            self._call_back(self._on_notify, cq)
        if self._waited_for:
            self._announce()
