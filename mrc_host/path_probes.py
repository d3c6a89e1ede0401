"""Path probes: the plan that a NIC probes by, and the report of what it sent and received (docs/path-mapping.md).

A NIC sends a *path probe* on each path of its plan once per *round*. The NIC that receives it, the same or another one,
records it; nobody answers. A probe to a switch and back returns to its sender by its own list of uSIDs; a probe to
another NIC tests one direction only. Sets of paths are bit sets: bit i is path i of the sender's plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_host.errors import InvalidArgumentError

MAX_PROBE_PATHS = 4096
MIN_ROUND_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class ProbePath:
    """One path of a plan.

    The NIC port (plane) it leaves from, the outer IPv6 address (uSID list, 16 bytes), the address of the NIC where it
    ends (16 bytes; the sender's own for out-and-back), and the entropy value that it carries.
    """

    port: int
    outer: bytes
    destination: bytes
    ev: int


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """Paths to probe, at most 4096, each once per `round_ns` (1 ms or more), evenly spaced.

    Rounds are numbered from `first_round` on, modulo 2**32. Raises InvalidArgumentError.
    """

    paths: tuple[ProbePath, ...]
    round_ns: int
    first_round: int = 0

    def __post_init__(self) -> None:
        """Check all values."""
        if not 1 <= len(self.paths) <= MAX_PROBE_PATHS:
            raise InvalidArgumentError(f"A probe plan has 1 to {MAX_PROBE_PATHS} paths, not {len(self.paths)}.")
        if self.round_ns < MIN_ROUND_NS:
            raise InvalidArgumentError(f"A round of probes takes {MIN_ROUND_NS} ns or more, not {self.round_ns}.")
        if not 0 <= self.first_round < 1 << 32:
            raise InvalidArgumentError(f"The first round is a number of 32 bits, not {self.first_round}.")
        for path in self.paths:
            if len(path.outer) != 16 or len(path.destination) != 16 or not 0 <= path.ev < 1 << 32:
                raise InvalidArgumentError("A probe's addresses have 16 bytes, and its entropy value 32 bits.")


@dataclass(frozen=True, slots=True)
class ProbesSent:
    """Paths of this NIC's plan on which a probe of a round was sent."""

    round: int
    paths: int


@dataclass(frozen=True, slots=True)
class ProbesArrived:
    """Paths of the plan of NIC `source` (its address; possibly our own) whose probe of a round arrived here."""

    source: bytes
    round: int
    paths: int


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What was sent and what arrived since the last report. `probing` is False while the NIC has no plan."""

    probing: bool
    sent: tuple[ProbesSent, ...] = ()
    arrived: tuple[ProbesArrived, ...] = ()
