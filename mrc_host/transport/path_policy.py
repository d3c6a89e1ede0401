"""What a queue pair with many paths knows of them, and who chooses them: MRC's policy, and what others replace."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mrc_host.config import TransportSettings
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_selection import PathSelection
from mrc_host.transport.peer import Peer
from mrc_host.transport.queue_pair_interfaces import AnswerPaths


class PathPolicy(ABC):
    """One transport's."""

    __slots__ = ("acknowledges_each", "knows_planes")

    def __init__(self, knows_planes: bool, acknowledges_each: bool) -> None:
        self.knows_planes = knows_planes  # otherwise a free port with a link is all that a packet needs
        self.acknowledges_each = acknowledges_each  # no SACK takes the place of another

    @abstractmethod
    def answers(self, nic: NicContext, peer: Peer) -> AnswerPaths:
        """The paths that acknowledgements take."""

    @abstractmethod
    def selection(self, nic: NicContext, peer: Peer) -> PathSelection | None:
        """What chooses the path of a packet; None: paths take turns."""

    @abstractmethod
    def oblivious(self, settings: TransportSettings) -> bool:
        """Whether nothing that happens on a path changes its state."""

    @abstractmethod
    def sack_threshold(self, settings: TransportSettings) -> int:
        """Bytes after which a SACK is due."""

    @abstractmethod
    def usable_planes(self, peer: Peer) -> int:
        """Planes on which packets are expected to arrive, as a mask."""


class MrcPaths(PathPolicy):
    """MRC's: paths have states, and what either end knows of its ports counts."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(knows_planes=True, acknowledges_each=False)

    def answers(self, nic: NicContext, peer: Peer) -> AnswerPaths:
        """Those known to work."""
        return peer.answers

    def selection(self, nic: NicContext, peer: Peer) -> PathSelection | None:
        """The NIC's own, if it has one."""
        return nic.new_path_selection()

    def oblivious(self, settings: TransportSettings) -> bool:
        """As configured."""
        return settings.spraying == "oblivious"

    def sack_threshold(self, settings: TransportSettings) -> int:
        """As configured."""
        return settings.sack_threshold

    def usable_planes(self, peer: Peer) -> int:
        """Where both ends' ports have a link."""
        return peer.planes.usable
