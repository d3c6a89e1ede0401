"""Incarnation: all state of one life of a queue pair in one value, which a RESET replaces as a whole (docs/verbs.md).

Attributes that ``modify_qp`` gives, the first PSNs and the other end live here and nowhere else, so nothing of one life
can reach the next one: there is no list of what a RESET has to clear. A step of the queue pair's state makes the next
value from the present one; if the step fails, the present one stays.

A life starts from the attributes that the queue pair was created with. First PSNs among these are only for the first
life that is connected.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.peer import Peer
from mrc_host.verbs_types import QpAddress, QpAttributes
from mrc_host.wire.psn import MASK


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of queue pair `qpn`, as far as it has come: `peer` and what follows are known from RTR on.

    `own_psn` is the first PSN that the NIC has chosen for sending, in case `attributes` give none.
    """

    qpn: int
    attributes: QpAttributes
    own_psn: int
    peer: Peer | None = None
    remote_qpn: int = 0
    first_received: int = 0

    @property
    def first_sent(self) -> int:
        """First PSN that this life sends."""
        given = self.attributes.send_psn
        return self.own_psn if given is None else given

    def connected(self, peer: Peer, remote: QpAddress) -> Incarnation:
        """The same life, connected to `remote`, a queue pair of `peer`; InvalidArgumentError about its first PSN."""
        first = self._first_received(remote)
        if not (0 <= first <= MASK and 0 <= remote.qpn <= MASK):
            raise InvalidArgumentError(f"A QPN and a first PSN have 24 bits, not {remote.qpn:#x} and {first:#x}.")
        return Incarnation(self.qpn, self.attributes, self.own_psn, peer, remote.qpn, first)

    def _first_received(self, remote: QpAddress) -> int:
        given, told = self.attributes.receive_psn, remote.psn
        first = told if given is None else given
        if first is None:
            raise InvalidArgumentError(
                "The first PSN of the peer is not known: pass its endpoint as it gives it, or set receive_psn."
            )
        if given is not None and told is not None and given != told:
            raise InvalidArgumentError(
                f"Queue pair {self.qpn:#x}: receive_psn {given} contradicts the peer's endpoint, whose first PSN is "
                f"{told}; connect to the peer's present endpoint without receive_psn, or give what the peer sends."
            )
        return first
