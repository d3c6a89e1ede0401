"""Crashed processes of a fabric: the message with which a run ends, and restarts of a fabric in the background.

A run measures nothing useful after one of its processes has crashed, so it ends. With ``mrc up --restart`` a fabric
restarts crashed processes: the controller reconciles every switch and goes on; a switch is programmed again by the
controller; an agent loses its queue pairs, as when a host crashes, and new ones can be made. A process that keeps
crashing is not restarted any more.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from topologies.emulation.errors import EmulationError
from topologies.emulation.process_watch import Crash

MAX_RESTARTS, WITHIN_S = 5, 60.0
_LOG_LINES = 10


def crash_message(crashes: Sequence[Crash]) -> tuple[str, str]:
    """Which processes ended a run, and a hint with the ends of their logs, which are deleted with the fabric."""
    hint = ["The run was ended, since its measurements would be invalid: run it again."]
    for crash in crashes:
        with contextlib.suppress(OSError):
            lines = Path(crash.log).read_text(errors="replace").splitlines()[-_LOG_LINES:]
            hint += [f"{crash.name}.log: {line}" for line in lines if len(lines) > 1]
    return "; ".join(map(str, crashes)), "\n     ".join(hint)


class Restarts:
    """Restarts crashed processes with `restart`, each at most 5 times a minute, and reports with `echo`.

    `present` gives the id of the process that now has a name: one that somebody has restarted since is left alone.
    """

    def __init__(
        self,
        restart: Callable[[str], None],
        present: Callable[[str], int],
        echo: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._restart = restart
        self._present = present
        self._echo = echo
        self._clock = clock
        self._done: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_RESTARTS))

    def crashed(self, crash: Crash) -> None:
        """Restart a process that has exited."""
        if self._present(crash.name) != crash.pid:
            return
        name, done = crash.name, self._done[crash.name]
        if len(done) == MAX_RESTARTS and self._clock() - done[0] <= WITHIN_S:
            often = f"{MAX_RESTARTS} times within {WITHIN_S:g} s"
            self._echo(f"process {name} was restarted {often} and will not be restarted again")
            return
        done.append(self._clock())
        try:
            self._restart(name)
        except (EmulationError, OSError) as error:
            self._echo(f"process {name} could not be restarted: {error}")
        else:
            self._echo(f"process {name} was restarted")
