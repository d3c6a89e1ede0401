"""The denylist of an agent: paths denied permanently, or leased by clients for as long as one of them is connected.

A client that leases denials (the path map's collector) may be killed at any time; its paths are then allowed again.
Denying a path permanently, or allowing it, overrides leases. A permanent denial outlasts any lease on the same path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from mrc_host.agent.session import ClientSession
from mrc_host.errors import MrcError

if TYPE_CHECKING:
    from mrc_host.transport.control_plane import NicControlPlane

Path = tuple[bytes, int]
"""Address of a peer, and an entropy value."""


class Denials:
    """The denylist of a NIC, with the clients that lease parts of it."""

    def __init__(self, control: NicControlPlane, clock: Callable[[], int]) -> None:
        self._control = control
        self._clock = clock
        self._leased: dict[Path, set[ClientSession]] = {}

    def set(self, path: Path, denied: bool) -> None:
        """Deny a path permanently, or allow it, whichever client denied it. NotFoundError if there is no such path."""
        path = self._named(path)
        self._control.set_path_denied(*path, denied, self._clock())
        self._leased.pop(path, None)

    def lease(self, path: Path, session: ClientSession) -> None:
        """Deny a path while `session` lasts. NotFoundError when there is no such path."""
        path = self._named(path)
        holders = self._leased.get(path)
        if holders is not None:
            holders.add(session)
        elif not self._denied(path):
            self._control.set_path_denied(*path, True, self._clock())
            self._leased[path] = {session}

    def end(self, path: Path, session: ClientSession) -> None:
        """End a lease; without one nothing happens."""
        path = self._named(path)
        holders = self._leased.get(path, set())
        if session not in holders:
            return
        holders.remove(session)
        if not holders:
            del self._leased[path]
            self._control.set_path_denied(*path, False, self._clock())

    def release(self, session: ClientSession) -> None:
        """End all leases of a closed session."""
        for path in [path for path, holders in self._leased.items() if session in holders]:
            with contextlib.suppress(MrcError):  # there is no such path any more
                self.end(path, session)

    def _named(self, path: Path) -> Path:
        """The path by its first entropy value, whichever of its values names it; NotFoundError."""
        peer, ev = path
        return peer, self._control.first_ev(peer, ev)

    def _denied(self, path: Path) -> bool:
        return any((one.peer, one.ev) == path for one in self._control.denied_paths())
