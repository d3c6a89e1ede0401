"""On which port the next acknowledgement of a queue pair leaves.

Usually the peer chooses one of those suited for answers (``AnswerRoutes.port``). A reliability probe is answered where
it arrived: so one that is sent on all planes is answered on all. The transport ACK that it asks for follows the SACK on
each of them, however many probes arrive at once, since answers may get through on one plane only. A plane that carries
probes may still lose all answers, and nobody may have heard that a port is up again. So when the peer probes although
nothing new has arrived since its last probe, both are sent once more, as for data; less often after a while, since the
peer may just wait for room in a completion queue here. A probe on a plane where this end does not send is answered as
data is.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.ack_generator import AckGenerator
from mrc_host.transport.peer import Peer
from mrc_host.verbs_types import ALL_PLANES

_NO_PSN: Final = -2  # less than any newest one
_OFTEN: Final = 16  # repeated probes that are all answered twice, and then one of
_SELDOM: Final = 8


class AnswerPort:
    """That of one queue pair, for one life. Ports are masks."""

    __slots__ = ("_among", "_newest", "_probed", "_repeated", "_twice", "mask")

    def __init__(self, among: int = ALL_PLANES) -> None:
        """`among`: the ports on which answers may leave at all."""
        self._among = among
        self.mask = 0  # the port, any of several where probes have arrived; 0 while none is chosen
        self._probed = 0  # where probes arrived whose answers are still due: the peer's port is up there
        self._newest = _NO_PSN  # newest PSN when the peer last probed
        self._repeated = 0  # probes since then in a row
        self._twice = False  # the latest probe is to be answered once more

    def probed(self, port: int, newest: int) -> None:
        """A probe has arrived at `port` (a number); `newest` is the newest PSN that has arrived."""
        if self._among >> port & 1:
            self._probed |= 1 << port
            self.mask = 1 << port
        self._repeated = self._repeated + 1 if newest == self._newest else 0
        self._newest = newest
        self._twice = 0 < self._repeated <= _OFTEN or self._repeated % _SELDOM == 1

    def settled(self, peer: Peer) -> bool:
        """Whether a port is chosen on which an answer may leave now."""
        may = peer.planes.answerable
        if self._probed:
            may |= self._probed & peer.planes.own()
        return self.mask & may != 0

    def choose(self, port: int) -> None:
        """The next answer leaves on `port`; 0: on none yet."""
        self.mask = port
        self._probed = 0

    def left(self, port: int, acks: AckGenerator) -> None:
        """An answer has left on `port` (a number); `acks` may have more."""
        if acks.sweeping() or not acks.pending():
            self._probed &= ~(1 << port)
            if self._probed and not acks.repeat_ack():
                self._probed = 0
            if self._twice and not self._probed:
                self._twice = False
                acks.answer_probe_again()
        self.mask = self._probed
