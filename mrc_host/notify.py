"""Whether a completion queue owes its application a notification, as ``ibv_req_notify_cq`` has it.

A queue is armed for the next entry, or for the next one that is *solicited*: a peer's WRITE_WITH_IMM that asks for
attention (SE, docs/protocol.md §1.5), or a failure. The first such entry after arming disarms it. Entries that came
before do not count: whoever arms looks afterwards what is there already. Arming for every entry is not undone by arming
for solicited ones only.
"""

from __future__ import annotations

from mrc_host.values import Completion, CompletionStatus


class Notification:
    """The state of one completion queue."""

    __slots__ = ("_any", "armed")

    def __init__(self) -> None:
        self.armed = False
        self._any = False

    def arm(self, solicited_only: bool) -> None:
        """The application wants to be told of the next entry."""
        self._any = not solicited_only or (self.armed and self._any)
        self.armed = True

    def due(self, entry: Completion) -> bool:
        """Whether a new `entry` is the one that was waited for; if so, the queue is no longer armed."""
        if not self.armed:
            return False
        if not (self._any or entry.solicited or entry.status is not CompletionStatus.SUCCESS):
            return False
        self.armed = False
        return True
