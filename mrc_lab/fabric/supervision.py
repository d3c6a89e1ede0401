"""Processes of a fabric that died: how a run that cannot go on says so, and how a standing fabric starts them anew.

A run is not worth much after one of its processes has died, so it ends. A fabric in the background may be told to start
what dies anew (``mrc up --restart``): the controller reconciles every switch and goes on; a switch is programmed again
by the controller; queue pairs of a host's agent are lost, as with a host that crashes, and new ones can be made. What
dies again and again is left dead.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from topologies.emulation.errors import EmulationError
from topologies.emulation.process_watch import Death

MOST_RESTARTS, WITHIN_S = 5, 60.0
_LOG_LINES = 10


def told(deaths: Sequence[Death]) -> tuple[str, str]:
    """What killed a run, in a sentence; and what that means, with the ends of the logs, which go with the fabric."""
    hint = ["The run was ended, since it says nothing about the fabric as described: run it again."]
    for death in deaths:
        with contextlib.suppress(OSError):
            lines = Path(death.log).read_text(errors="replace").splitlines()[-_LOG_LINES:]
            hint += [f"{death.name}.log: {line}" for line in lines if len(lines) > 1]
    return "; ".join(map(str, deaths)), "\n     ".join(hint)


class Restarts:
    """Starts what dies anew, by `restart`, but no process more than 5 times in a minute; `say` is told what happens."""

    def __init__(
        self,
        restart: Callable[[str], None],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._restart = restart
        self._say = say
        self._clock = clock
        self._done: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST_RESTARTS))

    def died(self, death: Death) -> None:
        """Restart a process that has exited."""
        name, done = death.name, self._done[death.name]
        if len(done) == MOST_RESTARTS and self._clock() - done[0] <= WITHIN_S:
            often = f"{MOST_RESTARTS} times within {WITHIN_S:g} s"
            self._say(f"process {name} was restarted {often} and will not be restarted again")
            return
        done.append(self._clock())
        try:
            self._restart(name)
        except (EmulationError, OSError) as error:
            self._say(f"process {name} could not be restarted: {error}")
        else:
            self._say(f"process {name} was restarted")
