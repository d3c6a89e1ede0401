"""What Ultra Ethernet's transport does otherwise than MRC, on the same skeleton: REPS, and answers on any path.

A UET queue pair has MRC's packets, NACKs, loss detection and NSCC, which are derived from Ultra Ethernet's. It has no
states of paths, no background probes, and no idea of planes: a port of its own that has no link is not used, and that
is all it knows. Where its packets go is decided by REPS alone (``Reps``); the port that is free asks for the next, as
in UEC's htsim. Retransmissions choose as all others do. Each packet is acknowledged, since REPS recycles what an
acknowledgement returns; a coalesced one returns less (docs/baselines.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrc_host.config import TransportSettings
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_policy import PathPolicy
from mrc_host.transport.path_selection import HOLD, PathSelection
from mrc_host.transport.peer import Peer
from mrc_host.transport.queue_pair_interfaces import AnswerPaths
from mrc_host.verbs_types import ALL_PLANES

BUFFER: Final = 8  # entropy values remembered: REPS (Bonato et al., arXiv 2407.21625), section 3
EXPLORED: Final = 16  # packets sent at random after a freeze, as in UEC's htsim
FREEZE: Final = 10_000_000  # ns, as there


class _Buffer:
    """The circular buffer of one port: what acknowledgements have returned, and whether it was used since."""

    __slots__ = ("_at", "_fresh", "_frozen_at", "_values")

    def __init__(self) -> None:
        self._values: list[int] = []
        self._fresh: list[bool] = []
        self._at = 0  # the next place to write
        self._frozen_at = 0  # the next place to read while frozen

    def empty(self) -> bool:
        """Whether nothing was ever returned."""
        return not self._values

    def add(self, value: int) -> None:
        """An acknowledgement has returned `value`."""
        if len(self._values) < BUFFER:
            self._values.append(value)
            self._fresh.append(True)
        else:
            self._values[self._at] = value
            self._fresh[self._at] = True
        self._at = (self._at + 1) % BUFFER

    def oldest_fresh(self) -> int:
        """The value that has waited longest, which is used up; -1 for none."""
        count = len(self._values)
        for step in range(count):
            at = (self._at + step) % BUFFER if count == BUFFER else step
            if self._fresh[at]:
                self._fresh[at] = False
                return self._values[at]
        return -1

    def next_of_all(self) -> int:
        """All values take turns, used or not."""
        at = self._frozen_at % len(self._values)
        self._frozen_at = at + 1
        self._fresh[at] = False
        return self._values[at]


class Reps(PathSelection):
    """Recycled entropy packet spraying: an entropy value is used again once it came back without a mark.

    Otherwise values are random. A packet that is lost, not trimmed, means a failure: then nothing new is tried for a
    while (*frozen*), and the values that came back last take turns. If the packet turns out to have been late, as
    behind a slow link, this ends at once. Each port has a buffer of its own, since the free port asks for a packet;
    while frozen, a port to which nothing has come back sends nothing as long as others do.
    """

    def __init__(self, nic: NicContext, plane_of: bytes) -> None:
        """`plane_of[i]` is the plane of path i; values are numbered as in ``paths``."""
        self._nic = nic
        self._plane_of = plane_of
        self._buffers = [_Buffer() for _ in range(max(plane_of, default=0) + 1)]
        self._frozen_until = 0
        self._frozen_by = 0  # the path whose loss did it
        self._explore = 0

    def choose(self, plane: int, paths: Sequence[int]) -> int:
        """The value of the next packet on `plane`."""
        self._thaw()
        buffer = self._buffers[plane]
        if self._explore:
            self._explore -= 1
        elif self._frozen_until:
            if not buffer.empty():
                return buffer.next_of_all()
            if self._anything_came_back():
                return HOLD
        elif (value := buffer.oldest_fresh()) >= 0:
            return value
        return paths[int(self._nic.rng.random() * len(paths))]

    def _anything_came_back(self) -> bool:
        return any(not buffer.empty() for buffer in self._buffers)

    def on_ack(self, path: int, rtt: int, marked: bool) -> None:
        """Value `path` has come back."""
        self._thaw()
        if not marked:
            self._buffers[self._plane_of[path % len(self._plane_of)]].add(path)

    def on_loss(self, path: int) -> None:
        """A packet was lost without a trim: something has failed."""
        if not self._frozen_until and not self._explore:
            self._frozen_until = self._nic.now + FREEZE
            self._frozen_by = path % len(self._plane_of)

    def on_false_loss(self, path: int) -> None:
        """What looked like a failure was a packet that others had overtaken."""
        if self._frozen_until and path % len(self._plane_of) == self._frozen_by:
            self._frozen_until = 0

    def _thaw(self) -> None:
        if self._frozen_until and self._nic.now > self._frozen_until:
            self._frozen_until = 0
            self._buffers = [_Buffer() for _ in self._buffers]
            self._explore = EXPLORED


class EntropyOnly(PathPolicy):
    """Ultra Ethernet's: entropy values that came back are all that is known."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(knows_planes=False, acknowledges_each=True)

    def answers(self, nic: NicContext, peer: Peer) -> AnswerPaths:
        """Any."""
        return AnyPath(nic, peer)

    def selection(self, nic: NicContext, peer: Peer) -> PathSelection | None:
        """REPS."""
        return Reps(nic, peer.paths.plane_of)

    def oblivious(self, settings: TransportSettings) -> bool:
        """Always: there are no states."""
        return True

    def sack_threshold(self, settings: TransportSettings) -> int:
        """Every packet makes one due."""
        return 1

    def usable_planes(self, peer: Peer) -> int:
        """Where our own port has a link."""
        return peer.planes.own()


class AnyPath(AnswerPaths):
    """Answers take any path of any port that has a link: nothing is known of them."""

    __slots__ = ("_nic", "_peer")

    def __init__(self, nic: NicContext, peer: Peer) -> None:
        self._nic = nic
        self._peer = peer

    def port(self, anywhere: bool = False, among: int = ALL_PLANES) -> int:
        """Mask of the one port that should carry the next answer, of those in `among`; 0 when none can."""
        up = self._nic.local_up & among
        ports = [port for port, paths in enumerate(self._peer.paths.members) if paths and up >> port & 1]
        return 1 << ports[int(self._nic.rng.random() * len(ports))] if ports else 0

    def works(self, index: int, now: int) -> None:
        """Does nothing: what gets through is not remembered."""

    def reverse_path(self, plane: int, now: int) -> int:
        """Any path of `plane`; -1 when there is none."""
        return self.random_path(plane)

    def random_path(self, plane: int) -> int:
        """The same."""
        members = [index for index in self._peer.paths.members[plane] if index not in self._peer.paths.denied]
        return members[int(self._nic.rng.random() * len(members))] if members else -1

    def acknowledging(self, now: int) -> None:
        """Does nothing: no reverse path is probed."""

    def doubt_reverse_paths(self, probed: bool = False) -> None:
        """Does nothing."""

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """The frame that carries `body` on path `index`, in traffic class `kind`."""
        return self._peer.frames.frame(index, kind, body)
