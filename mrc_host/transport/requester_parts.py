"""Parts of a requester on which both its ACK processing and its timeouts work."""

from __future__ import annotations

from mrc_host.transport.loss_detection import LossDetection
from mrc_host.transport.outgoing_messages import OutgoingMessages
from mrc_host.transport.paths import PathSet
from mrc_host.transport.reliability_probes import ReliabilityProbes
from mrc_host.transport.retransmission_timer import RetransmissionTimer
from mrc_host.transport.send_window import SendWindow
from mrc_host.transport.sent_packets import SentPackets
from mrc_host.transport.spurious_retransmissions import SpuriousRetransmissions
from mrc_host.transport.timeout_attribution import TimeoutAttribution
from mrc_host.transport.work import SendQueue


class RequesterParts:
    """Those of one requester, each the only one of its kind."""

    __slots__ = ("attribution", "loss", "messages", "paths", "probes", "sends", "sent", "spurious", "timer", "window")

    def __init__(
        self,
        paths: PathSet,
        sends: SendQueue,
        messages: OutgoingMessages,
        window: SendWindow,
        sent: SentPackets,
        loss: LossDetection,
        spurious: SpuriousRetransmissions,
        timer: RetransmissionTimer,
    ) -> None:
        self.paths = paths
        self.sends = sends
        self.messages = messages
        self.window = window
        self.sent = sent
        self.loss = loss
        self.spurious = spurious
        self.timer = timer
        self.attribution = TimeoutAttribution()
        self.probes = ReliabilityProbes()
