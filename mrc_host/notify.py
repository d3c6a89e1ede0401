"""Completion notification: whether a completion queue has to notify its application, as with ``ibv_req_notify_cq``.

A queue is armed for the next entry, or for the next *solicited* one: a peer's WRITE_WITH_IMM with the solicited-event
bit (SE, docs/protocol.md §1.5), or a failure. The first such entry after arming notifies and disarms it. Earlier
entries do not notify: the application polls once after arming. Arming for solicited entries only does not cancel an
earlier arming for every entry.
"""

from __future__ import annotations

from mrc_host.verbs_types import Completion, CompletionStatus


class Notification:
    """The notification state of one completion queue."""

    __slots__ = ("_any", "armed")

    def __init__(self) -> None:
        self.armed = False
        self._any = False

    def arm(self, solicited_only: bool) -> None:
        """The application wants to be notified of the next entry."""
        self._any = not solicited_only or (self.armed and self._any)
        self.armed = True

    def due(self, entry: Completion) -> bool:
        """Whether a new `entry` is the one that the queue is armed for; if so, the queue is disarmed."""
        if not self.armed:
            return False
        if not (self._any or entry.solicited or entry.status is not CompletionStatus.SUCCESS):
            return False
        self.armed = False
        return True
