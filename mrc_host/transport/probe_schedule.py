"""When a bad path is probed, and after what it is restored; and how paths that flap are probed less often.

A path is restored after ``probe_successes`` answered probes in a row, an *interval* apart. A lost probe restarts the
count, and doubles the wait for the next, up to four times ``probe_timeout``. If none was lost, the path never died: it
loses some packets, and so few probes do not show that this is over (``PathSet.restore``).

**Damping.** A path that fails again and again after its probes were answered is restored later each time, as is done
for flapping routes (RFC 2439): each failure adds one to its *penalty*, which halves every ``flap_half_life``. A single
failure costs nothing; each further one doubles the interval between probes, up to 64 times.

Nothing here sends anything: ``bad_paths`` does for a NIC, and the scale backend computes what would come of it.
"""

from __future__ import annotations

from typing import Final

from mrc_host.config import PathTimers

_MAX_DAMPING: Final = 6  # doublings of the interval
_MAX_TIMEOUT_FACTOR: Final = 4  # a lost probe is waited for at most this many times probe_timeout


class ProbeSchedule:
    """Probes of one bad path. Times are ns."""

    __slots__ = ("_needed", "_sent", "_successes", "_timeout", "_wait", "died", "interval")

    def __init__(self, timers: PathTimers, needed: int, doublings: int) -> None:
        """`needed` answers in a row restore the path; its interval is doubled `doublings` times."""
        self.interval = timers.probe_interval << doublings  # between answered probes
        self.died = False  # a probe was lost
        self._needed = needed
        self._timeout = timers.probe_timeout
        self._wait = self._timeout
        self._sent = 0
        self._successes = 0

    def probed(self, now: int) -> int:
        """A probe is sent; returns when the next one is due if this is not answered."""
        self._sent = now
        return now + self._wait

    def lost(self) -> None:
        """The probe was not answered."""
        self.died = True
        self._successes = 0
        self._wait = min(self._wait * 2, self._timeout * _MAX_TIMEOUT_FACTOR)

    def next_after(self, sent: int, now: int) -> int:
        """When the first probe is sent at `now` or later, if that sent at time `sent` and all in between are lost.

        The last of those is yet to be declared lost.
        """
        due = self.probed(sent)
        while due < now:
            self.lost()
            longest = self._timeout * _MAX_TIMEOUT_FACTOR
            skipped = (now - 1 - due) // longest if self._wait == longest else 0
            due = self.probed(due + skipped * longest)
        return due

    def answered(self, now: int) -> int:
        """The probe was answered; returns when the next one is due, 0 if the path is restored."""
        self._wait = self._timeout
        self._successes += 1
        return 0 if self._successes >= self._needed else max(now, self._sent + self.interval)

    def start_again(self) -> None:
        """The next lost probe is waited for as the first was."""
        self._wait = self._timeout


class FlapDamping:
    """Penalties of paths, by index."""

    __slots__ = ("_half_life", "_penalties")

    def __init__(self, half_life: int) -> None:
        self._half_life = half_life
        self._penalties: dict[int, tuple[float, int]] = {}  # penalty, and when it was computed

    def failed(self, index: int, now: int) -> int:
        """A path failed; returns how many times its probe interval doubles."""
        penalty, then = self._penalties.get(index, (0.0, now))
        penalty = penalty * 0.5 ** ((now - then) / self._half_life) + 1
        self._penalties[index] = penalty, now
        return min(int(penalty + 0.5) - 1, _MAX_DAMPING)

    def undo(self, index: int) -> None:
        """Undo the penalty: it was not the path that failed."""
        penalty, then = self._penalties[index]
        self._penalties[index] = max(penalty - 1, 0.0), then
